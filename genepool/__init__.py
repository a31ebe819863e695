"""Genepool evolves image classifiers, after "Large-Scale Evolution of Image Classifiers" (Real et al., 2017).

`ImageClassifier` is the high-level API: images and labels in, a classifier out. It builds on

    Experiment    a directory in which workers evolve a population: create, open, run, set, best, model, lineage
    Settings      every setting, frozen; `preset` returns the predefined ones
    Worker        one worker's loop, for programs that start workers themselves (`Experiment.worker` makes one)
    Mutation      the type of a mutation
    DNA           the graph that encodes a network
    TrainedModel  a trained network, from an experiment or an exported file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genepool.registry import lazy_names as _lazy_names

if TYPE_CHECKING:
    from genepool.classifier import ImageClassifier
    from genepool.dna import DNA
    from genepool.evolution import Worker
    from genepool.experiment import Experiment
    from genepool.export import TrainedModel
    from genepool.mutations import Mutation
    from genepool.settings import Settings, preset

__version__ = "0.1.0.dev0"
__all__ = ["ImageClassifier", "Experiment", "Settings", "preset", "Worker", "Mutation", "DNA", "TrainedModel"]

__getattr__ = _lazy_names(
    __name__,
    {
        "classifier": ["ImageClassifier"],
        "experiment": ["Experiment"],
        "settings": ["Settings", "preset"],
        "evolution": ["Worker"],
        "mutations": ["Mutation"],
        "dna": ["DNA"],
        "export": ["TrainedModel"],
    },
)
