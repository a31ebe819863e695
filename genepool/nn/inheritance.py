"""What a child takes over from its parents' weights (the paper's "Weight Inheritance").

What a child takes over from its parent's weights (the paper's "Weight Inheritance").

Weights for a child that begins where its parent stopped, although a mutation has changed its shape.

Differs from the paper: there, a tensor whose shape changed is drawn anew, and with it goes what all later layers had
learned to expect of it. With minutes instead of days nobody wins that back. Here

- a widened layer keeps its old outputs and computes new ones beside them, which nothing listens to yet: the weights
  that lead from new channels to old ones are zero, and learn;
- a larger filter is the old one with zeros around it, a smaller one its middle;
- a new convolution passes its input on (one in the middle of each filter), with further channels drawn as usual;
- a new normalisation takes scale and shift from one batch of images, so that it undoes itself.

What was cut away, or is negative in front of a new rectifier, is lost: the start is then near the parent, not at it.

The weights of a child of two parents, put together from both before the child inherits them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from genepool.dna import DNA, Conv
from genepool.errors import DataError
from genepool.mutations.recombination import fused_id, joints
from genepool.nn.model import Activation, Model


class Inheritance(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the tensors that were taken over, and of those that were not."""

    inherited: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    """Those of the inherited that came from a second parent."""
    fresh: tuple[str, ...] = ()


def inherit_weights(model: nn.Module, parent: Mapping[str, Tensor]) -> Inheritance:
    """Copies the parent's tensors, batch-norm statistics included, wherever name and shape agree."""
    inherited, fresh = [], []
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name in parent and parent[name].shape == tensor.shape:
                tensor.copy_(parent[name])
                inherited.append(name)
            else:
                fresh.append(name)
    return Inheritance(inherited=tuple(inherited), fresh=tuple(fresh))


def inherit_function(model: Model, parent: Mapping[str, Tensor], images: Tensor) -> Inheritance:
    """Takes over all that the parent's tensors can give; the images, a batch for training, set new normalisations."""
    state = model.state_dict()
    if not any(name in parent for name in state):  # the first of a line, or weights that were reset
        return Inheritance(fresh=tuple(state))
    inherited, fresh = [], []
    with torch.no_grad():
        for name, tensor in state.items():
            if name in parent and parent[name].ndim == tensor.ndim:
                _overlap(tensor, parent[name])
                inherited.append(name)
            else:
                fresh.append(name)
                if tensor.ndim == 4:
                    _pass_through(tensor)
        _calibrate(model, parent, images)
    return Inheritance(inherited=tuple(inherited), fresh=tuple(fresh))


def _overlap(new: Tensor, old: Tensor) -> None:
    """Copies what both have: the first channels, the middle of filters. Old outputs take nothing from what is new."""
    if new.shape == old.shape:
        new.copy_(old)
        return
    if new.ndim > 1:
        new[: old.shape[0]] = 0
    places = [slice(min(n, o)) for n, o in zip(new.shape[:2], old.shape[:2], strict=True)]
    middles = [_middles(n, o) for n, o in zip(new.shape[2:], old.shape[2:], strict=True)]
    new[(*places, *(middle for middle, _ in middles))] = old[(*places, *(middle for _, middle in middles))]


def _middles(new: int, old: int) -> tuple[slice, slice]:
    """Where the shorter of two odd lengths lies in each."""
    short = min(new, old)
    return tuple(slice((n - short) // 2, (n + short) // 2) for n in (new, old))  # type: ignore[return-value]


def _pass_through(filters: Tensor) -> None:
    """Each output channel that has an input of its number is that input."""
    out, into, height, width = filters.shape
    both = min(out, into)
    filters[:both] = 0
    filters[range(both), range(both), height // 2, width // 2] = 1


def _calibrate(model: Model, parent: Mapping[str, Tensor], images: Tensor) -> None:
    """Sets the statistics of channels that the parent did not have, from what comes in."""
    model.eval()

    def look(vertex: str, activation: Activation, x: Tensor) -> None:
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

    model.look_at_activations(images, look)
    model.train()


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
    """For a DNA made by `fuse`: all weights of both, so that the scores are the mean of theirs."""
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
    return f"{kind}_{fused_id(joint, identity)}.{leaf}"


def _classifier(parent: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    found = {name.rpartition(".")[2]: tensor for name, tensor in parent.items() if name.startswith("classifier_")}
    if set(found) != {"weight", "bias"}:
        raise DataError("the weights of a parent hold no classifier, or more than one.")
    return found["weight"], found["bias"]
