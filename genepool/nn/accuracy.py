"""The share of images that a network classifies correctly."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from genepool.dna.cost import VALIDATED
from genepool.nn.augment import Normaliser
from genepool.nn.model import Model


def accuracy(model: Model, pixels: NDArray[np.uint8], labels: NDArray[np.int64], normalise: Normaliser) -> float:
    """Of the whole set, with the moving averages of batch normalisation, without augmentation."""
    network = model.for_validation()
    right = 0
    for start in range(0, len(labels), VALIDATED):
        scores = network(normalise(np.array(pixels[start : start + VALIDATED])))
        answers = torch.from_numpy(np.array(labels[start : start + VALIDATED])).to(scores.device)
        right += int((scores.argmax(1) == answers).sum())
    return right / len(labels)
