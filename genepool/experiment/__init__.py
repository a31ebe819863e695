"""An experiment: a directory with a population, settings that may change, and the parts wired together for a worker.

experiment      the directory: create, open, set, run, read
opening         opening or creating an experiment from a request of a command
images          the images of an experiment, recorded and compared
versions        the history of the settings, and the rules in force
start           the network that an experiment starts from, with weights fitted to its images
stopping        when workers stop
worker_process  one worker in its process
best            the best network: tested, kept, exported; those of several experiments as one model
migration       copies of the best of one population for another
replay          an individual rebuilt from its lineage
tracking        TensorBoard and MLflow
"""

from genepool.experiment.best import (
    BestNetwork,
    Ensemble,
    best_network,
    check_same_data,
    choose_best,
    make_ensemble,
    measure_test_accuracy,
    measured_accuracies,
    model_to_export,
)
from genepool.experiment.experiment import Experiment
from genepool.experiment.migration import Migrant, migrate
from genepool.experiment.opening import ExperimentRequest, open_experiment
from genepool.experiment.replay import Repeated, measure_repeated, replay
from genepool.experiment.start import Beginning, Start, beginning, find_start, from_model
from genepool.experiment.stopping import Accounts, StopCondition
from genepool.experiment.tracking import Tracking
from genepool.experiment.versions import CurrentRules, annotations_of, settings_changes
from genepool.experiment.worker_process import run_worker

__all__ = [
    "Experiment", "ExperimentRequest", "open_experiment", "CurrentRules", "annotations_of", "settings_changes", "Start",
    "find_start", "from_model", "Beginning", "beginning", "Accounts", "StopCondition", "run_worker", "BestNetwork",
    "best_network", "choose_best", "measured_accuracies", "measure_test_accuracy", "model_to_export", "Ensemble",
    "check_same_data", "make_ensemble", "Migrant", "migrate", "Repeated", "measure_repeated", "replay", "Tracking",
]  # fmt: skip
