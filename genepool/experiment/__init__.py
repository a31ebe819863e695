"""An experiment: a directory with a population, settings that may change, and the parts wired together for a worker.

No logic of its own: what evolves is in evolution/, what is stored in population/, what trains in nn/.
"""

from genepool.experiment.accounts import Accounts
from genepool.experiment.course import Course
from genepool.experiment.experiment import Experiment
from genepool.experiment.names import lacking_mutations
from genepool.experiment.values import breeding_of, budget_of, escape_of, planning_of, source_of
from genepool.experiment.watch import Watch

__all__ = [
    "Experiment",
    "Accounts",
    "Course",
    "Watch",
    "breeding_of",
    "budget_of",
    "escape_of",
    "planning_of",
    "source_of",
    "lacking_mutations",
]
