"""The accuracy of a network, and its inference time on this machine."""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genepool.dna import VALIDATION_BATCH
from genepool.nn.batches import Normaliser
from genepool.nn.model import Model


def accuracy(
    model: Model, pixels: NDArray[np.uint8] | Tensor, labels: NDArray[np.int64], normalise: Normaliser
) -> float:
    """Return the accuracy on all images, with the moving averages of batch normalisation, without augmentation."""
    network = model.for_validation()
    answers = torch.from_numpy(np.array(labels)).to(normalise.device)
    right = torch.zeros((), dtype=torch.int64, device=normalise.device)
    for start in range(0, len(labels), VALIDATION_BATCH):
        part = pixels[start : start + VALIDATION_BATCH]
        images = normalise.of_tensor(part) if isinstance(part, Tensor) else normalise(np.array(part))
        right += (network(images).argmax(1) == answers[start : start + VALIDATION_BATCH]).sum()
    return int(right) / len(labels)


WARM_UP = 3
FEWEST, MOST = 5, 50
LONGEST = 0.2
"""The runs that are timed, and the seconds after which no more than FEWEST are."""


def milliseconds(model: Model, image: Tensor) -> float:
    """Return the inference time of one image: the fastest of several runs, since other load only slows down."""
    network = model.for_validation()
    fastest, began = float("inf"), time.perf_counter()
    for run in range(WARM_UP + MOST):
        start = time.perf_counter()
        if run >= WARM_UP + FEWEST and start - began > LONGEST:
            break
        network(image).argmax(1).item()
        if run >= WARM_UP:
            fastest = min(fastest, time.perf_counter() - start)
    return 1000 * fastest
