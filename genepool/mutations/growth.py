"""Mutations that make networks wide and deep within tens of generations.

Differs from the paper: its networks start with as many channels as the images have and become wide only through many
alter-number-of-channels mutations, each of which loses weights. These mutations take part only if the odds name them.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA
from genepool.errors import MutationError
from genepool.layers import BatchNormRelu, Conv
from genepool.mutations.base import MUTATIONS, new_id
from genepool.mutations.paper import random_conv

FIRST_WIDTH, WIDEST = 6.0, 2.0
"""A first convolution has FIRST_WIDTH to FIRST_WIDTH * WIDEST channels per image channel, uniform in the logarithm."""
FEWER = 0.45
"""The first convolution halves height and width. After each halving the probability of another is this many times as
large."""
AT_END = 0.5  # the probability that a convolution is appended to the others


DEEP, DEEPEST = 4, 9
"""Convolutions from which on a network is widened, and with which it grows no further. At the same FLOPs a wide shallow
network and a narrow deep one both learn worse than those in between."""


@MUTATIONS.register("grow-convolution")
def grow_convolution(dna: DNA, rng: Random) -> DNA:
    """Insert a 3x3 convolution with batch normalisation and a rectifier behind another one, where it can keep what the
    network computes. Only at the end, where nothing but the pooling follows, may it halve height and width, and then it
    has about twice as many channels as its input. The first convolution is wide, and halves the image.
    """
    if len(dna.convs) >= DEEPEST:
        raise MutationError("the network is deep enough.")
    is_first = not dna.convs
    candidates = [e for e in dna.backbone if dna.is_mutable(e) and (is_first or e.from_vertex != dna.input)]
    if not candidates:
        raise MutationError("no edge of the backbone behind the first convolution may be split.")
    old = candidates[-1] if rng.random() < AT_END else rng.choice(candidates)
    factor, halves = 1.0, False
    if old.to_vertex == dna.output:
        halves = rng.random() < FEWER ** sum(conv.stride > 1 for conv in dna.convs)
        factor = rng.uniform(1.5, 2.5) if halves else 1.0
    if is_first:
        factor = FIRST_WIDTH * WIDEST ** rng.random()
    vertex = BatchNormRelu(id=new_id(dna, rng))
    new = Conv(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id, depth_factor=factor)
    return dna.edited(put=[vertex, replace(new, stride_scale=float(halves)), replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("widen")
def widen(dna: DNA, rng: Random) -> DNA:
    """Multiply the output channels of a random convolution by up to 2, once there are several."""
    if len(dna.convs) < DEEP:
        raise MutationError("the network is not deep enough to be widened.")
    conv = random_conv(dna, rng)
    return dna.edited(put=[replace(conv, depth_factor=conv.depth_factor * rng.uniform(1.2, 2.0))])
