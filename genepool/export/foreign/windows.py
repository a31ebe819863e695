"""Convolutions and pools of any padding as edges of Genepool, whose padding follows from the size.

An edge turns n pixels into ceil(n / stride) and has filters of odd sizes. Others become larger filters with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from genepool.errors import DataError
from genepool.export.foreign.graph import Node

MAX_FILTER = 1001


class Window(NamedTuple):
    """How an edge of Genepool computes a convolution."""

    halves: tuple[int, int]
    """Half of the filter's height and width, rounded down."""
    offsets: tuple[int, int]
    """Where the original filter begins in it."""
    stride_scale: int
    is_late: bool

    @property
    def area(self) -> int:
        return (2 * self.halves[0] + 1) * (2 * self.halves[1] + 1)


def conv_window(node: Node, size: Sequence[int], out: Sequence[int], kernel: Sequence[int]) -> Window:
    """The smallest filter that does what the node does; a DataError if there is none."""
    dilations, pads = node.fields["dilations"], node.fields["pads"]
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    scale = _stride_scale(node, size, out)
    found = []
    for is_late in (False, True):
        axes = [
            _axis(n, m, 1 << scale, span, pad, is_late) for n, m, span, pad in zip(size, out, spans, pads, strict=False)
        ]
        if all(axis is not None for axis in axes):
            halves, offsets = zip(*[axis for axis in axes if axis is not None], strict=True)
            found.append(Window(halves, offsets, scale, is_late))
    if not found:
        raise DataError(f"{node.place} pads in a way that no layer of Genepool does.")
    return min(found, key=lambda window: window.area)


def _stride_scale(node: Node, size: Sequence[int], out: Sequence[int]) -> int:
    """The logarithm of the stride that gives the same size. A single window may have any stride."""
    fields = node.fields
    for scale in range(17):
        stride = 1 << scale
        fits = [-(-n // stride) == m for n, m in zip(size, out, strict=True)]
        alike = [m == 1 or stride == theirs for m, theirs in zip(out, fields["strides"], strict=True)]
        if all(fits) and all(alike):
            return scale
    raise DataError(
        f"{node.place} turns {size[0]}x{size[1]} pixels into {out[0]}x{out[1]} with strides of {fields['strides'][0]} "
        f"and {fields['strides'][1]}, but Genepool's layers divide the size by one power of 2, rounding up."
    )


def _axis(n: int, m: int, stride: int, span: int, pad: int, is_late: bool) -> tuple[int, int] | None:
    """Half of the filter and the offset in it, along one axis."""
    if not is_late:
        half = max(pad, span - 1 - pad, 0)
        return (half, half - pad) if 2 * half + 1 <= MAX_FILTER else None
    for length in range(span + (span + 1) % 2, MAX_FILTER + 1, 2):
        before = max((m - 1) * stride + length - n, 0) // 2
        if before >= pad and before - pad + span <= length:
            return length // 2, before - pad
    return None


def embedded(filters: Tensor, window: Window, dilations: Sequence[int]) -> Tensor:
    """The filters within the larger ones."""
    sizes = [2 * half + 1 for half in window.halves]
    large = torch.zeros(*filters.shape[:2], *sizes, dtype=filters.dtype)
    rows, columns = (
        slice(offset, offset + dilation * (length - 1) + 1, dilation)
        for offset, dilation, length in zip(window.offsets, dilations, filters.shape[2:], strict=True)
    )
    large[:, :, rows, columns] = filters
    return large


def pool_fields(node: Node, size: Sequence[int], out: Sequence[int]) -> Mapping[str, Any] | None:
    """The fields of a pool that has the same windows; None if there is none. Windows of ours are square and begin
    half their size before each pixel, rounded down."""
    kernel, pads = node.fields["kernel"], node.fields["pads"]
    length = max(kernel)
    is_alike = all(
        (k == length and pad == (length - 1) // 2) or (n == 1 and k == 1)
        for k, pad, n in zip(kernel, pads, size, strict=False)
    )
    if not is_alike or tuple(node.fields.get("dilations", (1, 1))) != (1, 1):
        return None
    return {"size": float(length), "stride_scale": float(_stride_scale(node, size, out))}
