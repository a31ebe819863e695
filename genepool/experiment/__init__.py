"""An experiment: a directory with a population, settings that may change, and the parts wired together for a worker.

No logic of its own: what evolves is in evolution/, what is stored in population/, what trains in nn/.
"""

from genepool.experiment.experiment import Experiment
from genepool.experiment.rules import CurrentRules, lacking_mutations
from genepool.experiment.stopping import Accounts, StopCondition

__all__ = [
    "Experiment",
    "Accounts",
    "CurrentRules",
    "StopCondition",
    "lacking_mutations",
]
