"""An estimate of the time of a training step on one core, from shapes alone: for comparing networks on one machine.

Fitted to measurements on one x86 core with batches of 50. CPUs compute convolutions on blocks of channels, so a narrow
layer takes as long as a full block; normalising and adding are limited by memory, at a thirtieth of the speed.
"""

from __future__ import annotations

from typing import NamedTuple

from genepool.dna.elements import Conv
from genepool.dna.flops import requirements
from genepool.dna.graph import DNA
from genepool.dna.shapes import Shape, shapes

_BLOCK = 16
_STEP = 0.9e-3
"""Seconds of every step: augmentation, loss and the calls of the update."""
_LAYER = 0.1e-3
_MULTIPLYING = 120e9
"""Operations per second."""
_MOVING = 4e9


class StepTime(NamedTuple):
    """The time and FLOPs of one training step."""

    seconds: float
    flops: float


def step_time(dna: DNA, image: Shape, classes: int, batch: int) -> StepTime:
    """Estimate the time of a step."""
    sizes = shapes(dna, image)
    multiplications = 0.0
    for edge in dna.convs:
        into, out = sizes.vertices[edge.from_vertex], sizes.edges[edge.id]
        filters = _blocks(into.channels) * _blocks(out.channels) * edge.filter_width * edge.filter_height
        multiplications += 6.0 * batch * out.height * out.width * filters
    moved = requirements(dna, image, classes, batch).training
    layers = sum(isinstance(edge, Conv) for edge in dna.edges) + len(dna.vertices)
    seconds = _STEP + layers * _LAYER + multiplications / _MULTIPLYING
    return StepTime(seconds + (moved.elementwise + moved.reduction) / _MOVING, float(moved.total))


def _blocks(channels: int) -> int:
    return -(-channels // _BLOCK) * _BLOCK if channels > 4 else channels
