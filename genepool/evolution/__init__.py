"""The evolutionary algorithm: what a worker does with a population. No torch in here."""

from genepool.evolution.budget import Budget, Spending
from genepool.evolution.reproduction import Breeding, first_birth, next_birth
from genepool.evolution.selection import SELECTIONS, Pair
from genepool.evolution.setpoint import SETPOINTS, Decision
from genepool.evolution.worker import Rules, Worker

__all__ = [
    "Worker",
    "Rules",
    "SELECTIONS",
    "Pair",
    "SETPOINTS",
    "Decision",
    "Breeding",
    "first_birth",
    "next_birth",
    "Budget",
    "Spending",
]
