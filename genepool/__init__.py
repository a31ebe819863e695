"""Genepool evolves image classifiers, after "Large-Scale Evolution of Image Classifiers" (Real et al., 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genepool.classifier import ImageClassifier
    from genepool.experiment import Experiment

__version__ = "0.1.0.dev0"
__all__ = ["Experiment", "ImageClassifier"]

_HOMES = {"Experiment": "genepool.experiment", "ImageClassifier": "genepool.classifier"}


def __getattr__(name: str) -> Any:
    """The public names are imported when they are first used: `import genepool` itself loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'genepool' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
