"""Whether an exported model answers like the original, on every validation image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from genepool.errors import ExportError
from genepool.nn.augment import Normaliser
from genepool.nn.data import Dataset
from genepool.nn.model import Model

TOLERANCE = 1e-4
"""Probabilities may differ by this; labels may not differ."""
BATCH = 100

Answers = NDArray[np.float32]
Stranger = Callable[[NDArray[np.uint8]], Answers]
"""A model as its format's own loader gives it."""


class Agreement(NamedTuple):
    """What the comparison found."""

    images: int
    largest_difference: float
    """Between two probabilities."""


def original_answers(models: Sequence[Model], data: Dataset) -> Answers:
    """The probabilities of all validation images as evolution computes them: normalised and folded as for fitness."""
    normalise = Normaliser(data, torch.device("cpu"))
    networks = [model.for_validation() for model in models]
    parts = []
    for pixels in _batches(data):
        x = normalise(pixels)
        parts.append(torch.stack([torch.softmax(network(x), 1) for network in networks]).mean(0).numpy())
    return np.concatenate(parts)


def share_right(answers: Answers, data: Dataset) -> float:
    """The accuracy on the validation images."""
    return float((answers.argmax(1) == np.asarray(data.validation_labels)).mean())


def compare(original: Answers, stranger: Stranger, data: Dataset) -> Agreement:
    """Raises an ExportError unless all labels agree and all probabilities are close.

    The first image also goes alone: a model that only takes the batch it was made with must not pass.
    """
    parts: list[Answers] = []
    for pixels in _batches(data):
        pieces = [pixels] if parts else [pixels[:1], pixels[1:]]
        parts.extend(stranger(piece) for piece in pieces if len(piece))
    answers = np.concatenate(parts)
    if answers.shape != original.shape:
        raise ExportError(f"The exported model gives answers of the shape {answers.shape}, not {original.shape}.")
    difference = np.abs(answers - original).max(axis=1)
    differs = np.flatnonzero((answers.argmax(1) != original.argmax(1)) | ~(difference <= TOLERANCE))
    if len(differs):
        raise ExportError(
            f"The exported model does not answer like the original on {len(differs)} of {len(original)} validation "
            f"images (image {differs[0]}: a probability differs by {difference[differs[0]]:.2g}); nothing was kept."
        )
    return Agreement(len(original), float(difference.max()))


def _batches(data: Dataset) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(data.validation_labels), BATCH):
        yield np.array(data.validation_pixels[start : start + BATCH])
