"""Mutations that insert layers of kinds beyond the paper's, most of them so that the function stays what it was.

Differs from the paper, which inserts convolutions and one-to-one connections. They take part only if the odds name
them.
"""

from __future__ import annotations

import math
from random import Random

from msgspec.structs import replace

from genepool.dna import DNA
from genepool.errors import MutationError
from genepool.layers import (
    SKIP_PRECEDENCE,
    AveragePool,
    BatchNormRelu,
    Conv,
    DepthwiseConv,
    Edge,
    Identity,
    Linear,
    MaxPool,
    SqueezeExcitation,
    Vertex,
)
from genepool.mutations.base import MUTATIONS, new_id
from genepool.mutations.paper import split, unconnected
from genepool.mutations.pruning import sizes_of

EXPANSIONS = (2.0, 6.0)
"""The channels inside a new inverted residual block, divided by those outside: the lowest and highest factor."""


@MUTATIONS.register("insert-depthwise")
def insert_depthwise(dna: DNA, rng: Random) -> DNA:
    """Insert a 3x3 depthwise convolution, followed by BN+ReLU or nothing."""
    old, vertex = split(dna, rng)
    new = DepthwiseConv(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id)
    return dna.edited(put=[vertex, new, replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("insert-squeeze-excitation")
def insert_squeeze_excitation(dna: DNA, rng: Random) -> DNA:
    """Insert a squeeze-and-excitation after a one-to-one connection; its gates are open at first."""
    old, vertex = split(dna, rng)
    new = Identity(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id)
    excitation = SqueezeExcitation(id=vertex.id, gate="hard_sigmoid")  # the gate that can be fully open and learn
    return dna.edited(put=[excitation, new, replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("insert-pooling")
def insert_pooling(dna: DNA, rng: Random) -> DNA:
    """Insert a 3x3 pooling, of maxima or means. Before an edge with a stride it takes over half of the stride, so that
    all shapes stay; elsewhere its stride is 1 or 2."""
    old, vertex = split(dna, rng)
    kind = MaxPool if rng.random() < 0.5 else AveragePool
    moved = replace(old, from_vertex=vertex.id)
    scale = rng.choice((0.0, 1.0))
    if old.stride > 1:
        scale = 1.0
        moved = replace(moved, stride_scale=max(0.0, getattr(old, "stride_scale", 0.0) - 1.0))
    new = kind(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id, stride_scale=scale)
    return dna.edited(put=[Linear(id=vertex.id), new, moved])


@MUTATIONS.register("add-projection")
def add_projection(dna: DNA, rng: Random) -> DNA:
    """Add a 1x1 convolution as a skip between two backbone vertices, with the stride and the channels that it needs to
    fit. It is zero at first."""
    source, target = unconnected(dna, rng)
    sizes = sizes_of(dna).vertices
    start, end = sizes[source], sizes[target]
    ratio = max(start.height / end.height, 1.0)
    new = Conv(
        id=new_id(dna, rng),
        from_vertex=source,
        to_vertex=target,
        depth_factor=end.channels / start.channels,
        filter_half_width=0.0,
        filter_half_height=0.0,
        stride_scale=float(round(math.log2(ratio))),
    )
    return dna.edited(put=[_beside(new)])


def _beside(edge: Edge) -> Edge:
    return replace(edge, depth_precedence=SKIP_PRECEDENCE, scale_precedence=SKIP_PRECEDENCE)


@MUTATIONS.register("insert-residual-block")
def insert_residual_block(dna: DNA, rng: Random) -> DNA:
    """Insert a residual block: two 3x3 convolutions beside a skip or, inverted, a depthwise one between two of 1x1,
    with more channels inside. The block adds nothing at first."""
    candidates = [edge for edge in dna.backbone if dna.is_mutable(edge)]
    if not candidates:
        raise MutationError("no edge of the backbone may be split.")
    old, end = rng.choice(candidates), Linear(id=new_id(dna, rng))
    layers = _inverted(dna, rng) if rng.random() < 0.5 else _plain(dna, rng)
    put: list[Vertex | Edge] = [end, replace(old, from_vertex=end.id)]
    here = old.from_vertex
    for place, layer in enumerate(layers):
        vertex = end if place == len(layers) - 1 else BatchNormRelu(id=new_id(dna, rng))
        put += [vertex, replace(layer, from_vertex=here, to_vertex=vertex.id)]
        here = vertex.id
    put.append(_beside(Identity(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=end.id)))
    return dna.edited(put=put)


def _plain(dna: DNA, rng: Random) -> list[Edge]:
    return [Conv(id=new_id(dna, rng), from_vertex="", to_vertex="") for _ in range(2)]


def _inverted(dna: DNA, rng: Random) -> list[Edge]:
    factor = rng.uniform(*EXPANSIONS)
    point = Conv(id="", from_vertex="", to_vertex="", filter_half_width=0.0, filter_half_height=0.0)
    return [
        replace(point, id=new_id(dna, rng), depth_factor=factor),
        DepthwiseConv(id=new_id(dna, rng), from_vertex="", to_vertex=""),
        replace(point, id=new_id(dna, rng), depth_factor=1.0 / factor),
    ]
