"""What networks cost on the images of an experiment, computed once for each of them."""

from __future__ import annotations

import sys
from functools import lru_cache

from genepool.dna import DNA, Price, Shape, Size, cropped, price, size
from genepool.errors import ModelTooLargeError
from genepool.evolution import Pricing, Sizing


def pricing_of(image: Shape, classes: int, batch: int) -> Pricing:
    """The price of a training step, by DNA and crop."""

    @lru_cache(maxsize=256)
    def of_a_step(dna: DNA, crop: float) -> Price:
        try:
            return price(dna, cropped(image, crop), classes, batch)
        except ModelTooLargeError:
            return Price(float("inf"), float("inf"))

    return of_a_step


def sizing_of(image: Shape, classes: int) -> Sizing:
    """Parameters and FLOPs, by DNA."""

    @lru_cache(maxsize=256)
    def of_a_network(dna: DNA) -> Size:
        try:
            return size(dna, image, classes)
        except ModelTooLargeError:
            return Size(sys.maxsize, sys.maxsize)

    return of_a_network
