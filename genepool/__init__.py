"""Genepool evolves image classifiers, after "Large-Scale Evolution of Image Classifiers" (Real et al., 2017).

`ImageClassifier` is the upper door: images and labels in, a classifier out. Behind it are

    Experiment   a directory that workers evolve in: create, open, run, set, best, population, lineage
    Settings     every setting, frozen; `preset` gives the known sets of them
    Worker       one worker's loop, for programs that start workers in their own way (`Experiment.worker` makes one)
    Mutation     what a mutation of one's own looks like
    DNA          the graph that encodes a network
    TrainedModel  a trained network, from an experiment or an exported file
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genepool.classifier import ImageClassifier
    from genepool.dna import DNA
    from genepool.evolution import Worker
    from genepool.experiment import Experiment
    from genepool.export.trained_model import TrainedModel
    from genepool.mutations import Mutation
    from genepool.settings import Settings, preset

__version__ = "0.1.0.dev0"
__all__ = ["ImageClassifier", "Experiment", "Settings", "preset", "Worker", "Mutation", "DNA", "TrainedModel"]

_HOMES = {
    "ImageClassifier": "genepool.classifier",
    "Experiment": "genepool.experiment",
    "Settings": "genepool.settings",
    "preset": "genepool.settings",
    "Worker": "genepool.evolution",
    "Mutation": "genepool.mutations",
    "DNA": "genepool.dna",
    "TrainedModel": "genepool.export.trained_model",
}


def __getattr__(name: str) -> Any:
    """The public names are imported when they are first used: `import genepool` itself loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'genepool' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
