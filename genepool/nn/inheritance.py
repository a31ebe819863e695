"""Weight inheritance (the paper's "Weight Inheritance"), from one parent or two.

The paper copies tensors whose shape did not change (`inherit_weights`). Differs from the paper: with
`inherit_function`, a child starts where its parent stopped although a mutation changed its shape, since training for
minutes instead of days does not recover from lost layers. What was cut off, or is negative before a new rectifier, is
lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from genepool.dna import DNA, Shape, shapes
from genepool.errors import DataError
from genepool.layers import EPSILON, Edge, Layer, Normalisation
from genepool.layers.tensors import Tensors, overlap
from genepool.mutations import fused_id, joints
from genepool.nn.model import Model
from genepool.nn.pruning import narrow, wider


class Inheritance(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the tensors that were inherited and of those that were not."""

    inherited: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    """The inherited tensors that came from a second parent."""
    fresh: tuple[str, ...] = ()


def inherit_weights(model: nn.Module, parent: Mapping[str, Tensor]) -> Inheritance:
    """Copy the parent's tensors, including batch-norm statistics, if name and shape agree."""
    state = model.state_dict()
    known = {name for name, tensor in state.items() if name in parent and parent[name].shape == tensor.shape}
    with torch.no_grad():
        for name in known:
            state[name].copy_(parent[name])
    return _inheritance(state, known)


def _inheritance(names: Iterable[str], inherited: set[str]) -> Inheritance:
    known, fresh = [name for name in names if name in inherited], [name for name in names if name not in inherited]
    return Inheritance(inherited=tuple(known), fresh=tuple(fresh))


def inherit_function(model: Model, parent: Mapping[str, Tensor], images: Tensor) -> Inheritance:
    """Inherit as much as possible of every tensor. A training batch calibrates new normalisations and shows which
    channels a narrower network should keep."""
    if not any(name in parent for name in model.state_dict()):  # the first network, or weights that were reset
        return Inheritance(fresh=tuple(model.state_dict()))
    large = wider(model.dna, parent, model.image)
    if large == model.dna:
        return _inherit(model, parent, images)
    classes = model.get_parameter(f"classifier_{large.output}.bias")
    larger = Model(large, model.image, len(classes), torch.Generator().manual_seed(0)).to(classes.device)
    found = _inherit(larger, parent, images)
    narrow(model, larger, images)
    return found


def _inherit(model: Model, parent: Mapping[str, Tensor], images: Tensor) -> Inheritance:
    state = model.state_dict()
    sizes = shapes(model.dna, model.image).vertices
    held: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in parent.items():
        module, _, part = name.rpartition(".")
        held[module][part] = tensor
    known = _take_over_classifier(model, held)
    with torch.no_grad():
        for layer, source in _with_sources(model.dna, sizes):
            tensors, old = model.tensors(layer), held.get(layer.module_name, {})
            names = layer.take_over(tensors, old, source) if old else frozenset()
            known |= {f"{layer.module_name}.{name}" for name in names}
            if not layer.has_weights or names:
                continue
            if isinstance(layer, Edge) and _runs_beside(model.dna, layer, held):
                layer.silence(tensors, source)
            else:
                layer.pass_on(tensors, source)
        _calibrate(model, parent, images)
    return _inheritance(state, known)


def _runs_beside(dna: DNA, edge: Edge, held: Mapping[str, object]) -> bool:
    """Return whether a new edge adds to what another one brings: to the edge that decides the depth of its vertex, or,
    at the end of a new branch, to one that starts where the branch does."""
    if edge is not dna.depth_primary(edge.to_vertex):
        return True
    starts, here = {other.from_vertex for other in dna.edges_in[edge.to_vertex] if other is not edge}, edge
    while starts and here.has_weights and here.module_name not in held:
        if here.from_vertex in starts:
            return here is not edge
        if here.from_vertex == dna.input:
            break
        here = dna.depth_primary(here.from_vertex)
    return False


def _with_sources(dna: DNA, sizes: Mapping[str, Shape]) -> Iterator[tuple[Layer, Shape]]:
    """Yield every layer with the shape of its input."""
    yield from ((edge, sizes[edge.from_vertex]) for edge in dna.edges)
    yield from ((vertex, sizes[vertex.id]) for vertex in dna.vertices)


def _take_over_classifier(model: Model, held: Mapping[str, Mapping[str, Tensor]]) -> set[str]:
    module = f"classifier_{model.dna.output}"
    old = held.get(module, {})
    known = [name for name in ("weight", "bias") if name in old]
    with torch.no_grad():
        for name in known:
            overlap(model.get_parameter(f"{module}.{name}"), old[name])
    return {f"{module}.{name}" for name in known}


def _calibrate(model: Model, parent: Mapping[str, Tensor], images: Tensor) -> None:
    """Set the statistics of channels that the parent did not have, from their inputs."""
    model.eval()

    def set_statistics(vertex: Normalisation, tensors: Tensors, x: Tensor) -> None:
        known = parent.get(f"vertex_{vertex.id}.running_mean")
        first = 0 if known is None else len(known)
        if first >= len(tensors.running_mean):
            return
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        tensors.running_mean[first:] = mean[first:]
        tensors.running_var[first:] = variance[first:]
        if known is None:
            # It passes its input on, or does what a vertex without statistics did at its place.
            tensors.bias.add_(tensors.weight * mean)
            tensors.weight.mul_(torch.sqrt(variance + EPSILON))

    model.run_with_hook(images, set_statistics)
    model.train()


class Mixture(NamedTuple):
    tensors: dict[str, Tensor]
    second: frozenset[str]
    """The names of tensors that come from the second parent, alone or together with the first."""


def mixed(model: Model, first: Mapping[str, Tensor], second: Mapping[str, Tensor], rng: Random) -> Mixture:
    """Take each layer from a random parent if both have it in the child's shape, else from the one that does."""
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
    """Yield modules that belong together: an edge and the vertex that it leads to; at last the classifier."""
    for vertex in dna.order[1:]:
        modules = {dna.vertex[vertex].module_name} if dna.vertex[vertex].has_weights else set()
        for edge in dna.edges_in[vertex]:
            if edge is dna.depth_primary(vertex) and edge.has_weights:
                modules.add(edge.module_name)
            elif edge.has_weights:
                yield {edge.module_name}
        if modules:
            yield modules
    yield {f"classifier_{dna.output}"}


def fused(dna: DNA, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Mixture:
    """Combine all weights of both parents for a DNA made by `fuse`, so that the scores are the mean of theirs."""
    left, right = joints(dna)
    tensors = {name: tensor for name, tensor in first.items() if not name.startswith("classifier_")}
    moved = {_renamed(name, right.id): tensor for name, tensor in second.items() if not name.startswith("classifier_")}
    weights, biases = zip(*(_classifier(parent) for parent in (first, second)), strict=True)
    name = f"classifier_{dna.output}"
    shared = {f"{name}.weight": torch.cat(weights, dim=1) / 2, f"{name}.bias": sum(biases) / 2}
    eye = torch.eye(sum(weight.shape[1] for weight in weights))[:, :, None, None]  # (both, both, 1, 1)
    width = weights[0].shape[1]
    ties = {f"edge_{left.id}.weight": eye[:, :width], f"edge_{right.id}.weight": eye[:, width:]}
    return Mixture(tensors | moved | shared | ties, frozenset(moved | shared))


def _renamed(name: str, joint: str) -> str:
    module, _, leaf = name.partition(".")
    kind, _, identity = module.partition("_")
    return f"{kind}_{fused_id(joint, identity)}.{leaf}"


def _classifier(parent: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    found = {name.rpartition(".")[2]: tensor for name, tensor in parent.items() if name.startswith("classifier_")}
    if set(found) != {"weight", "bias"}:
        raise DataError("the weights of a parent have no classifier, or more than one.")
    return found["weight"], found["bias"]
