"""Weights for a child that begins where its parent stopped, although a mutation has changed its shape.

Differs from the paper: there, a tensor whose shape changed is drawn anew, and with it goes what all later layers had
learned to expect of it. With minutes instead of days nobody wins that back. Here

- a widened layer keeps its old outputs and computes new ones beside them, which nothing listens to yet: the weights
  that lead from new channels to old ones are zero, and learn;
- a larger filter is the old one with zeros around it, a smaller one its middle;
- a new convolution passes its input on (one in the middle of each filter), with further channels drawn as usual;
- a new normalisation takes scale and shift from one batch of images, so that it undoes itself.

What was cut away, or is negative in front of a new rectifier, is lost: the start is then near the parent, not at it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from genepool.nn.inheritance import Inheritance
from genepool.nn.model import Model
from genepool.nn.ops import Activation


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
