"""An experiment: a directory with a population, settings that may change, and the parts wired together for a worker.

No logic of its own: what evolves is in evolution/, what is stored in population/, what trains in nn/.
"""

from genepool.experiment.experiment import Experiment
from genepool.experiment.rules import (
    CurrentRules,
    breeding_of,
    budget_of,
    escape_of,
    final_phase_of,
    lacking_mutations,
    source_of,
)
from genepool.experiment.stopping import Accounts, StopCondition

__all__ = [
    "Experiment",
    "Accounts",
    "CurrentRules",
    "StopCondition",
    "breeding_of",
    "budget_of",
    "escape_of",
    "final_phase_of",
    "source_of",
    "lacking_mutations",
]
