"""Weight inheritance (the paper's "Weight Inheritance"), from one parent or two.

The paper copies tensors whose shape did not change (`inherit_weights`). Differs from the paper: with
`inherit_function`, a child starts where its parent stopped although a mutation changed its shape, since training for
minutes instead of days does not recover from lost layers. What was cut off, or is negative before a new rectifier, is
lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from genepool.dna import DNA, Conv
from genepool.errors import DataError
from genepool.mutations import fused_id, joints
from genepool.nn.model import Activation, Model


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
    """Inherit as much as possible of every tensor; a training batch calibrates new normalisations."""
    state = model.state_dict()
    if not any(name in parent for name in state):  # the first network, or weights that were reset
        return Inheritance(fresh=tuple(state))
    known = {name for name, tensor in state.items() if name in parent and parent[name].ndim == tensor.ndim}
    with torch.no_grad():
        for name, tensor in state.items():
            if name in known:
                _overlap(tensor, parent[name])
            elif tensor.ndim == 4:
                _pass_through(tensor)
        _calibrate(model, parent, images)
    return _inheritance(state, known)


def _overlap(new: Tensor, old: Tensor) -> None:
    """Copy the common part: the first channels, the middle of filters. Old outputs ignore new inputs."""
    if new.shape == old.shape:
        new.copy_(old)
        return
    if new.ndim > 1:
        new[: old.shape[0]] = 0
    places = [slice(min(n, o)) for n, o in zip(new.shape[:2], old.shape[:2], strict=True)]
    middles = [_middles(n, o) for n, o in zip(new.shape[2:], old.shape[2:], strict=True)]
    new[(*places, *(middle for middle, _ in middles))] = old[(*places, *(middle for _, middle in middles))]


def _middles(new: int, old: int) -> tuple[slice, slice]:
    """Return where the shorter of two odd lengths lies in each."""
    short = min(new, old)
    return tuple(slice((n - short) // 2, (n + short) // 2) for n in (new, old))  # type: ignore[return-value]


def _pass_through(filters: Tensor) -> None:
    """Make each output channel equal to the input channel of the same number."""
    out, into, height, width = filters.shape  # (channels out, channels in, height, width)
    both = min(out, into)
    filters[:both] = 0
    filters[range(both), range(both), height // 2, width // 2] = 1


def _calibrate(model: Model, parent: Mapping[str, Tensor], images: Tensor) -> None:
    """Set the statistics of channels that the parent did not have, from their inputs."""
    model.eval()

    def set_statistics(vertex: str, activation: Activation, x: Tensor) -> None:
        known = parent.get(f"vertex_{vertex}.running_mean")
        first = 0 if known is None else len(known)
        if first >= len(activation.running_mean):
            return
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        activation.running_mean[first:] = mean[first:]
        activation.running_var[first:] = variance[first:]
        if known is None:
            activation.weight.copy_(torch.sqrt(variance + activation.EPSILON))
            activation.bias.copy_(mean)

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
    """Yield modules that belong together: a convolution and its normalisation; at last the classifier."""
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
