"""The tensors of one layer in torch, and how a child's tensors take over what its parent's held. The only file in this
folder that imports torch at once; kinds of layers import it when a network is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from genepool.layers.base import Weight


class Tensors(nn.Module):
    """Holds the tensors of a layer as attributes. The layer's `operation` computes with them."""

    def __init__(self, weights: Mapping[str, Weight]) -> None:
        super().__init__()
        for name, weight in weights.items():
            layout = torch.channels_last if len(weight.shape) == 4 else torch.contiguous_format
            values = torch.empty(weight.shape, memory_format=layout)
            if weight.start != "normal":
                values.fill_(float(weight.start == "ones") if isinstance(weight.start, str) else weight.start)
            if weight.is_trained:
                self.register_parameter(name, nn.Parameter(values))
            else:
                self.register_buffer(name, values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...


def he_normal(weight: Tensor, fan_in: int, rng: torch.Generator) -> None:
    """Initialise as in He et al. (2015)."""
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=rng) * math.sqrt(2 / fan_in))


def overlap(new: Tensor, old: Tensor) -> None:
    """Copy the common part: the first channels, the middle of filters. Old outputs ignore new inputs."""
    if new.shape == old.shape:
        new.copy_(old)
        return
    if new.ndim > 1:
        new[: old.shape[0]] = 0
    places = [slice(min(n, o)) for n, o in zip(new.shape[:2], old.shape[:2], strict=True)]
    middles = [_middles(n, o) for n, o in zip(new.shape[2:], old.shape[2:], strict=True)]
    new[(*places, *(middle for middle, _ in middles))] = old[(*places, *(middle for _, middle in middles))]


def overlap_groups(new: Tensor, old: Tensor, groups: int, old_groups: int) -> None:
    """Copy the filters between pairs of channels that are in one group both before and after; like `overlap`, old
    outputs ignore new inputs."""
    (out, seen), (old_out, old_seen) = new.shape[:2], old.shape[:2]
    middles = [_middles(n, o) for n, o in zip(new.shape[2:], old.shape[2:], strict=True)]
    places, old_places = zip(*middles, strict=True)
    for channel in range(min(out, old_out)):
        first, old_first = channel // (out // groups) * seen, channel // (old_out // old_groups) * old_seen
        start, stop = max(first, old_first), min(first + seen, old_first + old_seen)
        new[channel] = 0
        if start < stop:
            part = old[channel, start - old_first : stop - old_first]
            new[channel, start - first : stop - first][(slice(None), *places)] = part[(slice(None), *old_places)]


def _middles(new: int, old: int) -> tuple[slice, slice]:
    """Return where the shorter of two odd lengths lies in each."""
    short = min(new, old)
    return tuple(slice((n - short) // 2, (n + short) // 2) for n in (new, old))  # type: ignore[return-value]


def pass_through(filters: Tensor, groups: int = 1) -> None:
    """Make each output channel equal to the input channel of the same number, if that is in its group."""
    out, seen, height, width = filters.shape  # (channels out, channels in per group, height, width)
    for channel in range(min(out, seen * groups)):
        place = channel - channel // (out // groups) * seen
        if 0 <= place < seen:
            filters[channel] = 0
            filters[channel, place, height // 2, width // 2] = 1


class Kept(NamedTuple):
    """The channels that remain of an activation."""

    numbers: Tensor
    before: int


def narrow_tensors(new: Tensors, old: Tensors, weights: Mapping[str, Weight], into: Kept, out: Kept) -> None:
    """Copy the tensors of the same layer with more channels, given those that its input and its value keep. Axes that
    `Weight.axes` does not name are recognised by their lengths. Any other axis that is shorter keeps what weighs most.
    """
    inner: dict[tuple[str, int, int], list[tuple[str, int]]] = {}
    values = {name: getattr(old, name) for name in weights}
    for name, weight in weights.items():
        for axis, length in enumerate(weight.shape[:2]):
            before = values[name].shape[axis]
            known = weight.axes[axis] if axis < len(weight.axes) else _label(axis, (length, before), into, out)
            if known in ("in", "out"):
                numbers = (into if known == "in" else out).numbers
                values[name] = values[name].index_select(axis, numbers.to(values[name].device))
            elif length < before:
                inner.setdefault((known, length, before), []).append((name, axis))
    for (_, length, _), places in inner.items():
        numbers = _heaviest([values[name].movedim(axis, 0) for name, axis in places], length)
        for name, axis in places:
            values[name] = values[name].index_select(axis, numbers)
    for name, value in values.items():
        getattr(new, name).copy_(value)


def _label(axis: int, lengths: tuple[int, int], into: Kept, out: Kept) -> str:
    order = (("out", out), ("in", into)) if axis == 0 else (("in", into),)
    return next((label for label, kept in order if lengths == (len(kept.numbers), kept.before)), "")


def _heaviest(tensors: list[Tensor], length: int) -> Tensor:
    """Return the first indices at which the tensors are largest, all of them taken together."""
    sizes = torch.stack([tensor.reshape(len(tensor), -1).square().sum(1) for tensor in tensors])
    return sizes.clamp(min=1e-30).log().sum(0).topk(length).indices.sort().values


def regrouped(filters: Tensor, groups: tuple[int, int], into: Tensor, out: Tensor) -> Tensor:
    """Return filters of the given channels of input and value in another number of groups (before, after). What a
    channel saw outside of its new group is lost; what it did not see is zero."""
    before, after = groups
    seen_before, seen = filters.shape[1], len(into) // after
    blocks = torch.arange(len(out), device=filters.device) // (len(out) // after)
    wanted = into[blocks[:, None] * seen + torch.arange(seen, device=filters.device)]  # (channels out, seen)
    places = wanted - (out // (filters.shape[0] // before))[:, None] * seen_before
    known = (places >= 0) & (places < seen_before)
    found = filters[out[:, None], places.clamp(0, seen_before - 1)]  # (channels out, seen, height, width)
    return found * known[:, :, None, None]
