"""How convolutions and pools of other libraries pad, as numbers of pixels."""

from __future__ import annotations

from collections.abc import Sequence


def same_pads(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], *, lower: bool) -> tuple[int, ...]:
    """The pads (top, left, bottom, right) that keep the size; an odd one comes last unless `lower`."""
    totals = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, strides, strict=True)]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*large, *small) if lower else (*small, *large)


def ceil_pads(
    size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Pads that give the size rounded up (`ceil_mode`): more pixels at the end, which no average counts."""
    after = []
    for axis, n in enumerate(size):
        span = dilations[axis] * (kernel[axis] - 1) + 1
        before, behind, stride = pads[axis], pads[axis + 2], strides[axis]
        count = -(-(n + before + behind - span) // stride) + 1
        if (count - 1) * stride >= n + before:  # a window must not lie in the padding alone
            count -= 1
        after.append(max((count - 1) * stride + span - n - before, behind))
    return (pads[0], pads[1], *after)
