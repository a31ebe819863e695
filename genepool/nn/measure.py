"""The accuracy of a network, and how long it takes per image on this machine.

The share of images that a network classifies correctly.

How long a trained network takes for an image on this machine.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genepool.dna.flops import VALIDATED
from genepool.nn.batches import Normaliser
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


WARMING = 3
MOST, LONGEST = 50, 0.2
"""Runs, and seconds for all of them."""
FEWEST = 5


def milliseconds(model: Model, image: Tensor) -> float:
    """Of the inference of one image at a time, as validation computes it: folded, without gradients.

    The fastest of several runs, since whatever else a machine does can only make one slower. The answer is read each
    time, so that a GPU has really given it.
    """
    network = model.for_validation()
    fastest, began = float("inf"), time.perf_counter()
    for run in range(WARMING + MOST):
        start = time.perf_counter()
        if run >= WARMING + FEWEST and start - began > LONGEST:
            break
        network(image).argmax(1).item()
        if run >= WARMING:
            fastest = min(fastest, time.perf_counter() - start)
    return 1000 * fastest
