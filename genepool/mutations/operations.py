"""Mutations that change the kinds of layers and the numbers of kinds beyond the paper's.

Differs from the paper, whose kinds never change. A layer keeps its ID if the new kind can take over its weights. Only
kinds of this package are drawn, because a plugin that comes or goes must not change what a seed means. These mutations
take part only if the odds name them.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from msgspec.structs import replace

from genepool.dna import DNA
from genepool.errors import MutationError
from genepool.layers import (
    AveragePool,
    BatchNorm,
    BatchNormGelu,
    BatchNormHardSwish,
    BatchNormRelu,
    BatchNormRelu6,
    BatchNormSilu,
    Conv,
    DepthwiseConv,
    Edge,
    Gelu,
    GroupedConv,
    HardSwish,
    Identity,
    Layer,
    Linear,
    MaxPool,
    Relu,
    Relu6,
    SeparableConv,
    Silu,
    Vertex,
)
from genepool.mutations.base import MUTATIONS, new_id

CONVOLUTIONS: tuple[type[Edge], ...] = (Conv, GroupedConv, SeparableConv, DepthwiseConv)
POOLINGS: tuple[type[Edge], ...] = (MaxPool, AveragePool)
NORMALISED: tuple[type[Vertex], ...] = (
    BatchNorm, BatchNormRelu, BatchNormRelu6, BatchNormSilu, BatchNormGelu, BatchNormHardSwish,
)  # fmt: skip
FUNCTIONS: tuple[type[Vertex], ...] = (Relu, Relu6, Silu, Gelu, HardSwish)
GROUPS = (2.0, 4.0, 8.0, 16.0)
PAPER = (Conv, Identity, Linear, BatchNormRelu)
"""The kinds whose numbers the paper's own mutations change."""


def _as(layer: Any, kind: type[Any], **changes: Any) -> Any:
    """Return a layer of another kind with the fields that both have."""
    shared = {name: getattr(layer, name) for name in layer.__struct_fields__ if name in kind.__struct_fields__}
    return kind(**(shared | changes))


def _drawn(candidates: Iterable[Any], rng: Random, what: str) -> Any:
    found = list(candidates)
    if not found:
        raise MutationError(f"there is no {what} to change.")
    return rng.choice(found)


@MUTATIONS.register("alter-operation")
def alter_operation(dna: DNA, rng: Random) -> DNA:
    """Replace a random convolution or pooling by another kind of the same family, with the same filter and stride.
    Depthwise convolutions only take the place of those that keep the number of channels."""
    edges = [edge for edge in dna.edges if dna.is_mutable(edge) and type(edge) in (*CONVOLUTIONS, *POOLINGS)]
    old = _drawn(edges, rng, "convolution or pooling")
    family = CONVOLUTIONS if type(old) in CONVOLUTIONS else POOLINGS
    kinds = [kind for kind in family if kind is not type(old)]
    if getattr(old, "depth_factor", 1.0) != 1.0:
        kinds = [kind for kind in kinds if kind is not DepthwiseConv]
    return dna.edited(**_replaced(dna, old, rng.choice(kinds), rng))


def _replaced(dna: DNA, old: Edge, kind: type[Edge], rng: Random) -> dict[str, Any]:
    """Return the edit that gives an edge another kind."""
    changes: dict[str, Any] = {"groups": rng.choice(GROUPS)} if kind is GroupedConv else {}
    if type(old) is GroupedConv:  # the filters of groups do not say which channels they belong to
        return {"put": [_as(old, kind, id=new_id(dna, rng), **changes)], "drop": [old.id]}
    return {"put": [_as(old, kind, **changes)]}


@MUTATIONS.register("make-separable")
def make_separable(dna: DNA, rng: Random) -> DNA:
    """Turn a random convolution with a filter larger than 1x1 into a separable one, whose weights are as close to it as
    possible."""
    convs = [conv for conv in dna.convs if type(conv) is Conv and conv.window != (1, 1) and dna.is_mutable(conv)]
    return dna.edited(**_replaced(dna, _drawn(convs, rng, "convolution"), SeparableConv, rng))


@MUTATIONS.register("alter-groups")
def alter_groups(dna: DNA, rng: Random) -> DNA:
    """Double or halve the groups of a random grouped convolution, or divide a plain one into two."""
    old = _drawn([conv for conv in dna.convs if dna.is_mutable(conv)], rng, "convolution")
    if type(old) is Conv:
        return dna.edited(put=[_as(old, GroupedConv, groups=2.0)])
    factor = rng.choice((0.5, 2.0))
    if old.groups * factor < 2.0:
        return dna.edited(**_replaced(dna, old, Conv, rng))
    return dna.edited(put=[replace(old, id=new_id(dna, rng), groups=old.groups * factor)], drop=[old.id])


@MUTATIONS.register("alter-activation")
def alter_activation(dna: DNA, rng: Random) -> DNA:
    """Give a random vertex another activation function; normalisation stays, with its weights."""
    families = {kind: family for family in (NORMALISED, FUNCTIONS) for kind in family}
    vertices = [vertex for vertex in dna.vertices if vertex.properties_mutable and type(vertex) in families]
    old = _drawn(vertices, rng, "activation function")
    kind = rng.choice([kind for kind in families[type(old)] if kind is not type(old)])
    return dna.edited(put=[_as(old, kind)])


@MUTATIONS.register("alter-layer")
def alter_layer(dna: DNA, rng: Random) -> DNA:
    """Change a random number of a random layer that is not of the paper's kinds, a plugin's included, as the paper
    changes numbers: filters and others between half and twice, strides by up to one in log2, within their bounds."""
    edges: list[Layer] = [edge for edge in dna.edges if dna.is_mutable(edge)]
    vertices: list[Layer] = [vertex for vertex in dna.vertices if vertex.properties_mutable]
    layers = [layer for layer in edges + vertices if type(layer) not in PAPER and layer.BOUNDS]
    old = _drawn(layers, rng, "number")
    name = rng.choice(sorted(old.BOUNDS))
    low, high = old.BOUNDS[name]
    return dna.edited(put=[replace(old, **{name: min(high, max(low, _number(name, getattr(old, name), rng)))})])


def _number(name: str, value: float, rng: Random) -> float:
    if name == "stride_scale":
        return value + rng.uniform(-1.0, 1.0)
    if name.startswith("filter_half"):
        size = 2.0 * value + 1.0
        return (rng.uniform(size / 2.0, size * 2.0) - 1.0) / 2.0
    return rng.uniform(value / 2.0, value * 2.0) if value else rng.uniform(0.0, 1.0)


@MUTATIONS.register("alter-body-rate")
def alter_body_rate(dna: DNA, rng: Random) -> DNA:
    """Multiply the learning rate of all layers but the classifier by a factor between 1/2 and 2, uniform in its
    logarithm. Pretrained networks need it; in the paper one learning rate holds for all layers."""
    return replace(dna, body_rate=dna.body_rate * 2 ** rng.uniform(-1.0, 1.0))
