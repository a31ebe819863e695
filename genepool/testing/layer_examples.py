"""Example layers of a kind and small networks with them, for the layer contract."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import msgspec
from msgspec.inspect import BoolType, LiteralType, StructType, type_info
from msgspec.structs import replace

from genepool.dna import DNA, Shape
from genepool.layers import (
    SKIP_PRECEDENCE,
    BatchNormRelu,
    Conv,
    Edge,
    Identity,
    Linear,
    Vertex,
)
from genepool.mutations import mutate

IMAGE = Shape(9, 7, 3)
CHANNELS = 8
"""Channels of the layer's input."""
CLASSES = 5
LAYER = "layer"
"""The layer's ID in the networks."""


def example_layers(kind: type[Edge] | type[Vertex], count: int = 3, seed: int = 0) -> list[Edge | Vertex]:
    """Return a layer with the kind's own numbers and others with random ones, each at most four times its default."""
    rng = Random(f"{seed} {kind.__struct_config__.tag}")
    ends = _arc("first", "after") if issubclass(kind, Edge) else {}
    first = kind(id=LAYER, **ends)
    return [first, *(_redrawn(first, rng) for _ in range(count))]


def _redrawn(layer: Edge | Vertex, rng: Random) -> Edge | Vertex:
    values: dict[str, Any] = {name: _near(getattr(layer, name), rng, *layer.BOUNDS[name]) for name in layer.BOUNDS}
    info = type_info(type(layer))
    assert isinstance(info, StructType)
    base = {field.name for field in msgspec.structs.fields(Edge if isinstance(layer, Edge) else Vertex)}
    for field in info.fields:
        if field.name in base:
            continue
        if isinstance(field.type, LiteralType):
            values[field.name] = rng.choice(field.type.values)
        elif isinstance(field.type, BoolType):
            values[field.name] = rng.random() < 0.5
    return replace(layer, **values)


def _near(value: float, rng: Random, low: float, high: float) -> float:
    drawn = rng.uniform(0.0, 1.5) if value == 0 else value * math.exp(rng.uniform(math.log(0.5), math.log(4.0)))
    near = min(high, max(low, drawn))
    return round(near) if isinstance(value, int) else near


def in_a_chain(layer: Edge | Vertex) -> DNA:
    """Return a network in which the layer follows a convolution (a vertex) or is followed by a normalisation (an edge),
    so that validation can fold it."""
    middle = layer if isinstance(layer, Vertex) else BatchNormRelu(id="after")
    into = layer if isinstance(layer, Edge) else _conv("inner", "first", layer.id)
    start, end = (
        _conv("start", "input", "first", depth_factor=CHANNELS / IMAGE.channels),
        _conv("end", middle.id, "last"),
    )
    vertices = (Linear(id="input"), BatchNormRelu(id="first"), middle, Linear(id="last"), Linear(id="output"))
    trunk = Identity(id="trunk", from_vertex="last", to_vertex="output")
    return DNA(learning_rate=0.05, vertices=vertices, edges=(start, into, end, trunk))


def with_skips(layer: Edge | Vertex) -> DNA:
    """Return a network in which another edge needs the layer's input too, and in which a vertex also has the images
    themselves as its input."""
    skip = Identity(
        id="skip",
        from_vertex="first",
        to_vertex="last",
        depth_precedence=SKIP_PRECEDENCE,
        scale_precedence=SKIP_PRECEDENCE,
    )
    if isinstance(layer, Edge):
        return in_a_chain(layer).edited(put=[skip])
    # An identity makes the convolution's value also the input of the layer, and the images that of its copy.
    early = replace(layer, id="early")
    before = Identity(id="before", from_vertex="input", to_vertex="early")
    beside = replace(skip, id="beside", from_vertex="input")
    dna = in_a_chain(layer)
    start, inner = replace(dna.edge["start"], from_vertex="early"), Identity(id="inner", **_arc("first", layer.id))
    return dna.edited(put=[early, Linear(id="first"), start, inner, before, skip, beside])


def without(layer: Edge | Vertex) -> DNA:
    """Return `in_a_chain` as it was before a mutation inserted the layer (an edge with a vertex, or a vertex)."""
    dna = gaining(layer)
    end = replace(dna.edge["end"], from_vertex="first")
    return dna.edited(put=[end], drop=["after" if isinstance(layer, Edge) else layer.id, "gained"])


def gaining(layer: Edge | Vertex) -> DNA:
    """Return a network with the layer and nothing else between two others: as after a mutation that inserted it."""
    dna = in_a_chain(layer)
    if isinstance(layer, Edge):
        return dna.edited(put=[replace(layer, id="gained"), Linear(id="after")], drop=[layer.id])
    return dna.edited(put=[Identity(id="gained", **_arc("first", layer.id))], drop=["inner"])


def _conv(name: str, source: str, target: str, depth_factor: float = 1.0) -> Conv:
    return Conv(id=name, from_vertex=source, to_vertex=target, depth_factor=depth_factor)


def _arc(source: str, target: str) -> dict[str, Any]:
    return {"from_vertex": source, "to_vertex": target}


def mutated(dna: DNA, layer: Edge | Vertex, rng: Random) -> DNA:
    """Return a random child; in half of the cases in which the layer still exists, its own numbers are what changes."""
    found = dna.edge.get(layer.id) or dna.vertex.get(layer.id)
    if found is None or not found.BOUNDS or rng.random() < 0.5:
        return mutate(dna, rng).dna
    name = rng.choice(sorted(found.BOUNDS))
    value = _near(getattr(found, name), rng, *found.BOUNDS[name])
    return dna.edited(put=[replace(found, **{name: value})])
