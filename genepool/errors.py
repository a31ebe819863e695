"""Every exception that Genepool raises deliberately.

    GenepoolError
      StepAbandoned               the worker abandons this step and continues
        ConcurrencyError          another worker changed the individual first
        StorageError              the disk is full, unwritable or failing; worth another try later
        PopulationTooSmallError   there are not two individuals to compare
        MutationError             this mutation cannot act on this DNA
      InvalidDNAError             a DNA breaks a rule: which vertex or edge, which rule
      UnreachableError            an architecture that mutations cannot make, and why
      SettingsError               the name, the value, what is allowed
      DataError                   which file, what is wrong with it
        ArrayError                images or labels in arrays (also a ValueError)
      TrainingError               a network that could not be trained: a result, not a crash
        ModelTooLargeError        over a limit before anything was allocated, or out of memory
        DivergedError             the loss is no longer finite
      NotFittedError              a classifier was used before it was fitted
      ExportError                 a model that cannot be exported, or does not answer like the original
      EngineError                 Ray or a scheduler cannot be reached or used: which, why, what to do
      PopulationFormatError       a directory that is not ours, or from another version
      MissingDependencyError      an optional package is not installed (also an ImportError)

Each message is one sentence: what is wrong, where, and what to do. The command line prints it and exits with 2.
"""

from __future__ import annotations

import os
from pathlib import Path

LONGEST_SHOWN = 400


def shown(thing: str | Path) -> str:
    """Make a path or a user's text fit for a message: one line of limited length, with unprintable letters escaped."""
    text = os.fsencode(str(thing)[:LONGEST_SHOWN]).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class GenepoolError(Exception):
    """The root: catching it catches everything that Genepool raises deliberately."""


class StepAbandoned(GenepoolError):  # noqa: N818 - not an error, a step that ended early
    """The worker's current step cannot continue; the worker itself can."""


class ConcurrencyError(StepAbandoned):
    """Another worker changed the individual first."""


class StorageError(StepAbandoned):
    """The disk is full, unwritable or failing: the step is undone or will be found by listing; try again later."""


class PopulationTooSmallError(StepAbandoned):
    """There are not two individuals to compare."""


class MutationError(StepAbandoned):
    """This mutation cannot act on this DNA; another one should be drawn."""


class InvalidDNAError(GenepoolError):
    """A DNA breaks a rule of the encoding; the message names the vertex or edge and the rule."""


class UnreachableError(GenepoolError):
    """No sequence of mutations leads to this architecture; the message says why."""


class SettingsError(GenepoolError):
    """A setting has an unknown name or a value that is not allowed."""


class DataError(GenepoolError):
    """A file of images, labels or weights cannot be used; the message names it and says why."""


class ArrayError(DataError, ValueError):
    """Images or labels given to a classifier as arrays cannot be used; NumPy users expect a ValueError."""


class TrainingError(GenepoolError):
    """A network could not be trained; its individual gets fitness 0 and this reason."""


class ModelTooLargeError(TrainingError):
    """The network is over a size limit, or the machine ran out of memory."""


class DivergedError(TrainingError):
    """The loss is no longer a finite number."""


class NotFittedError(GenepoolError, ValueError, AttributeError):
    """A classifier was used before it was fitted; scikit-learn expects these base classes."""


class ExportError(GenepoolError):
    """A model cannot be written in that format or to that path, or does not answer like the original."""


class EngineError(GenepoolError):
    """Ray, a scheduler or one of its nodes cannot be reached or used; the message names it and says what to do."""


class PopulationFormatError(GenepoolError):
    """A directory is not an experiment of ours, or was written by another version."""


class MissingDependencyError(GenepoolError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""
