"""Small trained networks, and what the layer contract does with them: compute, count, train, export. Uses torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from genepool.data import Dataset
from genepool.dna import DNA, Requirements, encode, requirements, shapes
from genepool.evaluation import Training
from genepool.export import FORMATS, Facts, Member, Search, build, compare, digest_of, original_answers, restore
from genepool.layers import Edge, Vertex
from genepool.nn import Model, TrainingRun
from genepool.nn.model import fit
from genepool.testing.layer_examples import CLASSES, IMAGE

BATCH = 4
TOLERANCE = 1e-4
"""The tolerance for scores, relative to the largest one."""


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
