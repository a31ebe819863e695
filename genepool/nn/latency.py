"""How long a trained network takes for an image on this machine."""

from __future__ import annotations

import time

from torch import Tensor

from genepool.nn.model import Model

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
