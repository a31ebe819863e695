"""Shapes, FLOPs and memory of one layer. No torch."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Shape(NamedTuple):
    """The shape of an image or an activation."""

    height: int
    width: int
    channels: int

    @property
    def values(self) -> int:
        return self.height * self.width * self.channels


class Flops(msgspec.Struct, frozen=True):
    """Floating-point operations by kind."""

    convolution: int = 0
    matrix: int = 0
    elementwise: int = 0
    reduction: int = 0

    def __add__(self, other: Flops) -> Flops:
        convolution, matrix = self.convolution + other.convolution, self.matrix + other.matrix
        return Flops(convolution, matrix, self.elementwise + other.elementwise, self.reduction + other.reduction)

    @property
    def total(self) -> int:
        return self.convolution + self.matrix + self.elementwise + self.reduction


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of one vertex, one edge or the classifier for one batch; memory is counted in values."""

    parameters: int = 0
    decayed: int = 0
    """The parameters that weight decay acts on: filters and matrices."""
    forward: Flops = Flops()
    """FLOPs in validation."""
    training: Flops = Flops()
    """FLOPs of forward pass, backward pass and update."""
    kept: int = 0
    """Kept for the backward pass."""
    waiting: int = 0
    """Kept until the last of several edges has used them: the activation and its gradient."""
    passing: int = 0
    """The largest temporary activation."""
    buffers: int = 0
    """Needed while a convolution is computed: reordered filters and the patches of one image."""

    def __add__(self, other: Item) -> Item:
        return Item(
            parameters=self.parameters + other.parameters,
            decayed=self.decayed + other.decayed,
            forward=self.forward + other.forward,
            training=self.training + other.training,
            kept=self.kept + other.kept,
            waiting=self.waiting + other.waiting,
            passing=max(self.passing, other.passing),
            buffers=max(self.buffers, other.buffers),
        )


def update(parameters: int, decayed: int) -> Flops:
    """The FLOPs of one update by gradient descent with momentum and weight decay."""
    return Flops(elementwise=4 * parameters + 2 * decayed)


BLOCK = 16  # CPUs compute convolutions on blocks of this many channels


def in_blocks(channels: int) -> int:
    """Channels rounded up to whole blocks; very few are computed in another way."""
    return -(-channels // BLOCK) * BLOCK if channels > 4 else channels
