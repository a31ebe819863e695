"""The shape of an experiment's images. No record names it, and an observer may not have the images.

Data sets with a name are in the catalogue. Of others it follows from what any record says of its network's cost: the
parameters depend on the classes, and the operations on the size, and only one size gives exactly these.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from genepool.dna import DNA, Shape, cost
from genepool.errors import GenepoolError
from genepool.evaluation import Evaluation
from genepool.settings import Settings

_LARGEST_SIDE = 1024


class Image(NamedTuple):
    """What a network is made for."""

    shape: Shape
    classes: int


def image_of(settings: Settings, dna: DNA, told: Evaluation) -> Image | None:
    """The images of an experiment, with the help of one of its records; None where they cannot be known."""
    from genepool.nn.sources import SOURCES

    try:
        if settings.data in SOURCES:
            known = SOURCES.get(settings.data)
            return Image(Shape(known.height, known.width, known.channels), known.classes)
        return next(filter(None, (_fitting(settings, dna, told, channels) for channels in (3, 1))), None)
    except (GenepoolError, ImportError):
        return None


def _fitting(settings: Settings, dna: DNA, told: Evaluation, channels: int) -> Image | None:
    one, two = (cost(dna, Shape(8, 8, channels), classes).parameters for classes in (1, 2))
    classes, rest = divmod(told.parameters - one, two - one)
    if rest or classes < 0 or not told.flops_forward:
        return None

    def operations(shape: Shape) -> int:
        return cost(dna, shape, classes + 1, settings.batch).forward.total

    if settings.size:
        height, width = (int(side) for side in settings.size.split("x"))
        shape = Shape(height, width, channels)
    else:
        sides = range(1, _LARGEST_SIDE)
        side = bisect_left(sides, told.flops_forward, key=lambda side: operations(Shape(side, side, channels))) + 1
        shape = Shape(side, side, channels)
    return Image(shape, classes + 1) if operations(shape) == told.flops_forward else None
