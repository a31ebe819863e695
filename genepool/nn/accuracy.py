"""The share of images that a network classifies correctly."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genepool.dna.cost import VALIDATED
from genepool.nn.augment import Normaliser
from genepool.nn.model import Model


def accuracy(
    model: Model, pixels: NDArray[np.uint8] | Tensor, labels: NDArray[np.int64], normalise: Normaliser
) -> float:
    """Of the whole set, with the moving averages of batch normalisation, without augmentation.

    Pixels may be on the device already. The device is asked once, at the end.
    """
    network = model.for_validation()
    answers = torch.from_numpy(np.array(labels)).to(normalise.device)
    right = torch.zeros((), dtype=torch.int64, device=normalise.device)
    for start in range(0, len(labels), VALIDATED):
        part = pixels[start : start + VALIDATED]
        images = normalise.of_tensor(part) if isinstance(part, Tensor) else normalise(np.array(part))
        right += (network(images).argmax(1) == answers[start : start + VALIDATED]).sum()
    return int(right) / len(labels)
