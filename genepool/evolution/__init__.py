"""The evolutionary algorithm: what a worker does with a population. No torch in here."""

from genepool.evolution.budget import Budget, Phase, Spending
from genepool.evolution.child_limits import FREE_OF_CHARGE, NOTHING, Capacities, StepTimes
from genepool.evolution.escape import Escape, Intervention
from genepool.evolution.final_phase import FinalPhase
from genepool.evolution.reproduction import Breeding, Founder, Newborn, first_birth, next_birth
from genepool.evolution.selection import SELECTIONS, Pair
from genepool.evolution.set_point import SET_POINTS, Decision
from genepool.evolution.training_budget import TrainingBudgetRules
from genepool.evolution.worker import Job, Rules, Worker

__all__ = [
    "Worker",
    "Rules",
    "StepTimes",
    "FREE_OF_CHARGE",
    "Capacities",
    "NOTHING",
    "Job",
    "SELECTIONS",
    "Pair",
    "SET_POINTS",
    "Decision",
    "Breeding",
    "Founder",
    "Newborn",
    "first_birth",
    "next_birth",
    "TrainingBudgetRules",
    "FinalPhase",
    "Phase",
    "Escape",
    "Intervention",
    "Budget",
    "Spending",
]
