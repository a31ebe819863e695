"""The evolutionary algorithm: what a worker does with a population. No torch in here."""

from genepool.evolution.affordability import FREE_OF_CHARGE, NOTHING, Pricing, Sizing
from genepool.evolution.budget import Budget, Spending
from genepool.evolution.interventions import Escape, Intervention
from genepool.evolution.planning import Phase, Planning
from genepool.evolution.reproduction import Breeding, Founder, Newborn, first_birth, next_birth
from genepool.evolution.selection import SELECTIONS, Pair
from genepool.evolution.setpoint import SETPOINTS, Decision
from genepool.evolution.worker import Job, Rules, Worker

__all__ = [
    "Worker",
    "Rules",
    "Pricing",
    "FREE_OF_CHARGE",
    "Sizing",
    "NOTHING",
    "Job",
    "SELECTIONS",
    "Pair",
    "SETPOINTS",
    "Decision",
    "Breeding",
    "Founder",
    "Newborn",
    "first_birth",
    "next_birth",
    "Planning",
    "Phase",
    "Escape",
    "Intervention",
    "Budget",
    "Spending",
]
