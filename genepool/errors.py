"""Every exception that Genepool raises on purpose.

    GenepoolError
      StepAbandoned: ConcurrencyError, StorageError, PopulationTooSmallError, MutationError, MissingLayerError
      TrainingError: ModelTooLargeError, DivergedError, LayerError
      DataError: ArrayError
      InvalidDNAError, UnreachableError, SettingsError, NotFittedError, ExportError, EngineError
      PopulationFormatError, MissingDependencyError

Each message is one sentence that says what, where and what to do; the command line prints it and exits with 2.
"""

from __future__ import annotations

import os
from pathlib import Path

LONGEST_SHOWN = 400


def shown(thing: str | Path) -> str:
    """A path or foreign text for a message: one line, truncated, with unprintable characters escaped."""
    text = os.fsencode(str(thing)[:LONGEST_SHOWN]).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class GenepoolError(Exception):
    """The base of every exception that Genepool raises on purpose."""


class StepAbandoned(GenepoolError):  # noqa: N818 - not an error, a step that ended early
    """The worker's current step cannot continue; the worker can."""


class ConcurrencyError(StepAbandoned):
    """Another worker changed the individual first."""


class StorageError(StepAbandoned):
    """The disk is full, unwritable or failing: the step is undone or found by a later listing, and retried."""


class PopulationTooSmallError(StepAbandoned):
    """There are not two individuals to compare."""


class MutationError(StepAbandoned):
    """The mutation cannot act on this DNA; draw another."""


class MissingLayerError(StepAbandoned):
    """A network has layers of kinds that this process lacks; a process with the plugin can use the network."""

    def __init__(self, message: str, kinds: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kinds = kinds


class InvalidDNAError(GenepoolError):
    """A DNA breaks a rule of the encoding; the message names the vertex or edge and the rule."""


class UnreachableError(GenepoolError):
    """No sequence of mutations leads to this architecture; the message says why."""


class SettingsError(GenepoolError):
    """A setting has an unknown name or a value that is not allowed."""


class DataError(GenepoolError):
    """A file of images, labels or weights cannot be used; the message names it and says why."""


class ArrayError(DataError, ValueError):
    """Arrays of images or labels cannot be used; a ValueError too, as NumPy users expect."""


class TrainingError(GenepoolError):
    """A network could not be trained; its individual gets fitness 0 and this reason: a result, not a crash."""


class ModelTooLargeError(TrainingError):
    """The network is over a size limit, or the machine ran out of memory."""


class DivergedError(TrainingError):
    """The loss is not finite."""


class LayerError(TrainingError):
    """A plugin's layer failed; the message names its kind and the error."""


class NotFittedError(GenepoolError, ValueError, AttributeError):
    """A classifier was used before it was fitted; also the errors that scikit-learn expects."""


class ExportError(GenepoolError):
    """A model cannot be written there, or the written model differs from the original."""


class EngineError(GenepoolError):
    """Ray, a scheduler or one of its nodes cannot be reached or used; the message names it and says what to do."""


class PopulationFormatError(GenepoolError):
    """A directory is not an experiment, or has the format of another release."""


class MissingDependencyError(GenepoolError, ImportError):
    """An optional dependency is missing; the message names the extra to install. An ImportError too."""
