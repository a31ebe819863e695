"""The only module that reads test images. Evolution and training never do; reports on a chosen network do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from genepool.data import Dataset, Source
from genepool.dna import VALIDATION_BATCH
from genepool.errors import DataError
from genepool.nn.batches import Normaliser
from genepool.nn.evaluator import accuracy
from genepool.nn.model import Model


def test_accuracy(model: Model, source: Source, data: Dataset, normalise: Normaliser) -> float:
    """Return the accuracy on the test images."""
    pixels, labels = _held_out(source, data)
    return accuracy(model, pixels, labels, normalise)


def test_answers(
    models: Sequence[Model], source: Source, data: Dataset
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return each model's probabilities for the test images (models, images, classes), and the labels."""
    pixels, labels = _held_out(source, data)
    normalise = Normaliser(data, torch.device("cpu"))
    networks = [model.for_validation() for model in models]
    parts = []
    for start in range(0, len(labels), VALIDATION_BATCH):
        images = normalise(np.array(pixels[start : start + VALIDATION_BATCH]))
        parts.append(torch.stack([torch.softmax(network(images), 1) for network in networks]).cpu().numpy())
    return np.concatenate(parts, axis=1), labels


def _held_out(source: Source, data: Dataset) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images = source.held_out()
    if images.pixels.shape[1:] != tuple(data.image):
        raise DataError(f"The test images of '{source.name}' differ in size from its training images.")
    return images.pixels, images.labels
