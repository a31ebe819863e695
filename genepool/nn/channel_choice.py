"""Which channels to keep: those from which the layers behind can best work out all the others.

Channels are ranked one after another, as in a Cholesky decomposition with pivots: the next is always the one that
explains most of what the layers behind still miss. Two equal channels, or one that is a sum of others, are not both
ranked high, as they would be by the size of their weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

EXACT = 64  # so many channels are ranked one by one
RIDGE = 1e-3
"""What counts as independent in each channel, as a part of the mean: noise should not look like information."""


class Reader(NamedTuple):
    """A layer that reads channels: what the ranked channels leave unexplained, in products of every two channels."""

    products: Tensor
    weighed: Tensor
    """The products times the quadratic form of the layer."""

    @classmethod
    def of(cls, products: Tensor, form: Tensor) -> Reader:
        """`form` says what a change of the channels does to the layer's value; all layers count alike."""
        noise = RIDGE * products.diagonal().mean().clamp(min=1e-30)
        independent = products + noise * torch.eye(len(products), dtype=products.dtype)
        return cls(independent, independent @ form / (form * products).sum().clamp(min=1e-30))

    def gains(self) -> Tensor:
        """Return how much each channel would explain."""
        return (self.weighed * self.products).sum(1) / self.products.diagonal().clamp(min=1e-30)

    def explain(self, channels: Sequence[int]) -> None:
        """Remove what these channels explain."""
        own = torch.tensor([channel for channel in channels if channel < len(self.products)], dtype=torch.int64)
        columns, rows = self.products[:, own], torch.cat([self.products[own], self.weighed[own]], dim=1)
        rows = torch.linalg.solve(self.products[own][:, own], rows)
        self.weighed.addmm_(columns, rows[:, len(self.products) :], alpha=-1)
        self.products.addmm_(columns, rows[:, : len(self.products)], alpha=-1)


def ranked(readers: Sequence[Reader], channels: int, first: int = 0) -> list[int]:
    """Return the channels, the most important first; `first` of them are not to choose from and stay in front."""
    order = list(range(first))
    for reader in readers:
        reader.explain(order)
    while len(order) < channels:
        found = _next(readers, channels, order)
        for reader in readers:
            reader.explain(found)
        order += found
    return order


def _next(readers: Sequence[Reader], channels: int, order: Sequence[int]) -> list[int]:
    """Return the next channels; few at a time, so that the time of wide layers grows with matrix products."""
    count = min(max(1, channels // EXACT), channels - len(order))
    gains = torch.zeros(len(readers), channels, dtype=torch.float64)
    for row, reader in zip(gains, readers, strict=True):
        row[: len(reader.products)] = reader.gains()
    total = gains.sum(0)
    total[list(order)] = -torch.inf
    candidates = total.topk(min(4 * count, channels - len(order))).indices.tolist()
    if count == 1:
        return [int(total.argmax())]
    rest = torch.stack([_part(reader.products, candidates) for reader in readers])  # (readers, candidates, candidates)
    shares = gains[:, candidates] / rest.diagonal(dim1=1, dim2=2).clamp(min=1e-30)
    found: list[int] = []
    for _ in range(count):
        scores = (shares * rest.diagonal(dim1=1, dim2=2)).sum(0)
        scores[found] = -torch.inf
        found.append(int(scores.argmax()))
        columns = rest[:, :, found[-1]]
        rest = rest - columns[:, :, None] * columns[:, None, :] / columns[:, found[-1], None, None].clamp(min=1e-30)
    return [candidates[place] for place in found]


def _part(products: Tensor, channels: Sequence[int]) -> Tensor:
    """Return the products of some channels, zero for those that the reader does not have."""
    part = torch.zeros(len(channels), len(channels), dtype=torch.float64)
    own = torch.tensor([place for place, channel in enumerate(channels) if channel < len(products)], dtype=torch.int64)
    numbers = torch.tensor(channels)[own]
    part[own[:, None], own] = products[numbers[:, None], numbers]
    return part


def chosen(old: Mapping[str, int], new: Mapping[str, int], order: Iterable[int], blocks: int = 1) -> Tensor:
    """Return the old number of each new channel, given the old and new numbers of channels of activations that share
    them. A channel stays in the activations in which it was if possible, because a sum adds channels by number; it is
    never missing from an activation that has it now. `blocks` blocks keep equally many if their number divides all.
    """
    pairs = sorted({(old[name], new[name]) for name in old})
    order = list(order)
    if blocks > 1 and len(pairs) == 1 and not any(width % blocks for width in pairs[0]):
        before, after = (width // blocks for width in pairs[0])
        parts = [[i for i in order if i // before == block][:after] for block in range(blocks)]
        return torch.tensor([i for part in parts for i in sorted(part)])
    numbers: list[int] = []
    for owners, count in _bands([after for _, after in pairs]):
        taken = set(numbers)
        free = [i for i in order if i not in taken and _has(pairs, owners, i)]
        alike = [i for i in free if sum(before > i for before, _ in pairs) == len(owners)]
        others = [i for i in free if sum(before > i for before, _ in pairs) > len(owners)]
        numbers += sorted(alike[:count]) + sorted(others[: max(0, count - len(alike))])
    return torch.tensor(numbers)


def _has(pairs: Sequence[tuple[int, int]], owners: frozenset[int], channel: int) -> bool:
    return all(pairs[owner][0] > channel for owner in owners)


def _bands(widths: Sequence[int]) -> list[tuple[frozenset[int], int]]:
    """Return which activations own the next channels, and how many, until the widest ends."""
    ends = sorted({0, *widths})
    return [
        (frozenset(i for i, width in enumerate(widths) if width > start), end - start) for start, end in pairwise(ends)
    ]
