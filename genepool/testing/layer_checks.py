"""Example layers of a kind and small networks with them, and what the layer contract does with these: compute, count,
train, export. Uses torch."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import torch
from msgspec.inspect import BoolType, LiteralType, StructType, type_info
from msgspec.structs import replace
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from genepool.data import Dataset
from genepool.dna import DNA, Requirements, Shape, encode, requirements, shapes
from genepool.evaluation import Training
from genepool.export import FORMATS, Facts, Member, Search, build, compare, digest_of, original_answers, restore
from genepool.layers import SKIP_PRECEDENCE, BatchNormRelu, Conv, Edge, Identity, Linear, Vertex
from genepool.mutations import mutate
from genepool.nn import Model, TrainingRun
from genepool.nn.model import fit

IMAGE = Shape(9, 7, 3)
CHANNELS = 8
"""Channels of the layer's input."""
CLASSES = 5
LAYER = "layer"
"""The layer's ID in the networks."""
BATCH = 4
TOLERANCE = 1e-4
"""The tolerance for scores, relative to the largest one."""


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


def noise(count: int = BATCH, seed: int = 5) -> Tensor:
    """Return images (count, channels, height, width)."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randn((count, IMAGE.height, IMAGE.width, IMAGE.channels), generator=rng).permute(0, 3, 1, 2)


def settled(dna: DNA, seed: int = 0) -> Model:
    """Return a network with weights and statistics as after some training: none is as it was drawn."""
    model, rng = fresh(dna, seed), torch.Generator().manual_seed(seed + 100)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=rng), alpha=0.1)
        for number in range(3):
            model(noise(32, seed=number))
    return model


def fresh(dna: DNA, seed: int = 9) -> Model:
    """Return a network as it is drawn."""
    return Model(dna, IMAGE, CLASSES, torch.Generator().manual_seed(seed))


def needs(dna: DNA) -> Requirements:
    """Return what is predicted for one batch."""
    return requirements(dna, IMAGE, CLASSES, BATCH)


def plainly(model: Model, images: Tensor) -> dict[str, Tensor]:
    """Return the values of all edges and vertices by ID, each computed from a copy of its inputs."""
    dna, values, sizes = model.dna, dict[str, Tensor](), shapes(model.dna, IMAGE).vertices

    def value(layer: Edge | Vertex, x: Tensor) -> Tensor:
        operation = layer.operation(model.tensors(layer))
        return x.clone() if operation is None else operation(x.clone())

    for vertex in dna.order:
        for edge in dna.edges_in[vertex]:
            values[edge.id] = value(edge, values[edge.from_vertex])
        terms = [fit(values[edge.id], sizes[vertex]) for edge in dna.edges_in[vertex]]
        values[vertex] = value(dna.vertex[vertex], sum(terms[1:], terms[0]) if terms else images)
    return values


def classified(model: Model, value: Tensor) -> Tensor:
    """Return the scores for the value of the output."""
    scores: Tensor = model.get_submodule(f"classifier_{model.dna.output}")(value)
    return scores


def difference(wanted: Tensor, found: Tensor) -> float:
    """Return the largest difference between scores, relative to the largest score."""
    wanted, found = wanted.detach(), found.detach()
    return float((wanted - found).abs().max() / wanted.abs().max())


def counter() -> FlopCounterMode:
    """torch's counter. Its own formula for the gradient of filters ignores that channels may be in groups."""

    def backward(out: Any, x: Any, weight: Any, *others: Any, **_: Any) -> int:
        return int(sum(others[-1][:2]) * conv_flop_count(x, weight, out))

    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten.convolution_backward: backward})


def noise_dataset() -> Dataset:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (16, *IMAGE), dtype=np.uint8), np.arange(16) % CLASSES
    return Dataset(
        name="noise", classes=tuple("abcde"), height=IMAGE.height, width=IMAGE.width, channels=IMAGE.channels, pad=0,
        flip=False, mean=(0.5,) * IMAGE.channels, std=(0.3,) * IMAGE.channels, train_pixels=pixels,
        train_labels=labels, validation_pixels=pixels, validation_labels=labels,
    )  # fmt: skip


def training(dna: DNA, seed: int) -> TrainingRun:
    """Return a training that has not begun."""
    settings = Training(steps=4, batch=BATCH, precision="float32")
    return TrainingRun(fresh(dna, seed), noise_dataset(), settings, seed=3, device=torch.device("cpu"))


def round_trip(dna: DNA, name: str, path: Path) -> None:
    """Write the network, compare what its format's own loader computes, and read it with our code."""
    data, state = noise_dataset(), settled(dna).state_dict()
    member = Member(
        id="i0", network=dna.in_a_line(), fitness=0.5, parameters=needs(dna).parameters, flops=1, dna=encode(dna),
        lineage=(),
    )  # fmt: skip
    facts = Facts(
        name="contract", data=data.name, classes=data.classes, height=data.height, width=data.width,
        channels=data.channels, mean=data.mean, std=data.std, members=(member,),
        search=Search(individuals=1, flops=1, seconds=1.0),
    )  # fmt: skip
    network, original = build(facts, [state]), restore(member, facts, state)
    facts = replace(facts, digest=digest_of(network.state_dict()))
    FORMATS[name].write(network, facts, path)
    answers = original_answers([original], data)
    compare(answers, FORMATS[name].load(path), data)
    read, again = FORMATS[name].read(path)
    assert read == facts
    assert np.abs(again.predict(data.validation_pixels) - answers).max() < TOLERANCE
