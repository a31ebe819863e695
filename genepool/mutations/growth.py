"""Mutations by which a network gets wide and deep in tens of generations.

Differs from the paper: its networks begin with as many channels as the images have, and only many mutations of the
number of channels, each of which throws weights away, make them wide. These take part only where the odds name them.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA, Conv, Vertex
from genepool.errors import MutationError
from genepool.mutations.base import MUTATIONS, new_id
from genepool.mutations.numbers import random_conv

FIRST_WIDTH, WIDEST = 6.0, 4.0
"""Channels of a first convolution for each channel of the images, and times how many at most; by its logarithm."""
FIRST_HALVES = 0.8
"""How likely the first convolution halves the size."""


@MUTATIONS.register("grow-convolution")
class GrowConvolution:
    """A 3x3 convolution with normalisation and rectifier behind it.

    The first is wide. One that halves the size may have up to twice as many channels as come in; the more of those
    there are, the rarer is another. One in front of the first takes its width over, since the images' own is narrow.
    """

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        candidates = [edge for edge in dna.backbone if dna.is_mutable(edge)]
        if not candidates:
            raise MutationError("no edge of the backbone may be split.")
        old = rng.choice(candidates)
        halvings = sum(conv.stride > 1 for conv in dna.convs)
        halves = rng.random() < FIRST_HALVES * 0.6**halvings
        factor = rng.uniform(1.0, 2.0) if halves else 1.0
        if old.from_vertex == dna.input:
            factor = old.depth_factor if isinstance(old, Conv) else FIRST_WIDTH * WIDEST ** rng.random()
        vertex = Vertex(id=new_id(dna, rng), type="bn_relu")
        new = Conv(
            id=new_id(dna, rng),
            from_vertex=old.from_vertex,
            to_vertex=vertex.id,
            depth_factor=factor,
            stride_scale=float(halves),
        )
        moved = replace(old, from_vertex=vertex.id)
        if old.from_vertex == dna.input and isinstance(moved, Conv):
            moved = replace(moved, depth_factor=1.0)
        return dna.edited(put=[vertex, new, moved])


@MUTATIONS.register("widen")
class Widen:
    """More channels of a random convolution's output: up to twice as many.

    Not of an only one, which is wide already: the next one behind it costs the square of its width, and would soon be
    out of reach.
    """

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        if len(dna.convs) < 2:
            raise MutationError("an only convolution is wide enough.")
        conv = random_conv(dna, rng)
        return dna.edited(put=[replace(conv, depth_factor=conv.depth_factor * rng.uniform(1.2, 2.0))])
