"""The share of images that a network classifies correctly."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from genepool.nn.augment import Normaliser
from genepool.nn.model import Model

BATCH = 100
"""Images at a time; on CPUs the speed hardly depends on it, the memory does."""


def accuracy(model: Model, pixels: NDArray[np.uint8], labels: NDArray[np.int64], normalise: Normaliser) -> float:
    """Of the whole set, with the moving averages of batch normalisation, without augmentation."""
    network = model.for_validation()
    right = 0
    for start in range(0, len(labels), BATCH):
        scores = network(normalise(np.array(pixels[start : start + BATCH])))
        answers = torch.from_numpy(np.array(labels[start : start + BATCH])).to(scores.device)
        right += int((scores.argmax(1) == answers).sum())
    return right / len(labels)
