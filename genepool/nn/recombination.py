"""The weights of a child of two parents, put together from both before the child inherits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from genepool.dna import DNA, Conv
from genepool.errors import DataError
from genepool.nn.model import Model
from genepool.recombination import beside, joints


class Mixture(NamedTuple):
    """What two parents give together."""

    tensors: dict[str, Tensor]
    second: frozenset[str]
    """The names of those that come from the second parent, alone or with the first."""


def mixed(model: Model, first: Mapping[str, Tensor], second: Mapping[str, Tensor], rng: Random) -> Mixture:
    """Each layer from one of the two at random where both have it in the child's shape, otherwise from whoever has."""
    state = model.state_dict()
    tensors, chosen = dict(first), set()

    def fits(parent: Mapping[str, Tensor], names: list[str]) -> bool:
        return all(name in parent and parent[name].shape == state[name].shape for name in names)

    for modules in _layers(model.dna):
        names = [name for name in state if name.partition(".")[0] in modules]
        if fits(second, names) and (not fits(first, names) or rng.random() < 0.5):
            tensors.update({name: second[name] for name in names})
            chosen.update(names)
    return Mixture(tensors, frozenset(chosen))


def _layers(dna: DNA) -> Iterator[set[str]]:
    """Modules that belong together: a convolution with the normalisation that measures it, then the classifier."""
    for vertex in dna.order[1:]:
        modules = {f"vertex_{vertex}"} if dna.vertex[vertex].type == "bn_relu" else set()
        for edge in dna.edges_in[vertex]:
            if edge is dna.depth_primary(vertex) and isinstance(edge, Conv):
                modules.add(f"edge_{edge.id}")
            elif isinstance(edge, Conv):
                yield {f"edge_{edge.id}"}
        if modules:
            yield modules
    yield {f"classifier_{dna.output}"}


def fused(dna: DNA, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Mixture:
    """For a DNA of `genepool.recombination.fuse`: all weights of both, so that the scores are the mean of theirs."""
    left, right = joints(dna)
    tensors = {name: tensor for name, tensor in first.items() if not name.startswith("classifier_")}
    moved = {_renamed(name, right.id): tensor for name, tensor in second.items() if not name.startswith("classifier_")}
    weights, biases = zip(*(_classifier(parent) for parent in (first, second)), strict=True)
    shared = {
        f"classifier_{dna.output}.weight": torch.cat(weights, dim=1) / 2,
        f"classifier_{dna.output}.bias": sum(biases) / 2,
    }
    eye = torch.eye(sum(weight.shape[1] for weight in weights))[:, :, None, None]
    width = weights[0].shape[1]
    ties = {f"edge_{left.id}.weight": eye[:, :width], f"edge_{right.id}.weight": eye[:, width:]}
    return Mixture(tensors | moved | shared | ties, frozenset(moved | shared))


def _renamed(name: str, joint: str) -> str:
    module, _, leaf = name.partition(".")
    kind, _, identity = module.partition("_")
    return f"{kind}_{beside(joint, identity)}.{leaf}"


def _classifier(parent: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    found = {name.rpartition(".")[2]: tensor for name, tensor in parent.items() if name.startswith("classifier_")}
    if set(found) != {"weight", "bias"}:
        raise DataError("the weights of a parent hold no classifier, or more than one.")
    return found["weight"], found["bias"]
