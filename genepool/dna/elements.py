"""The elements of a DNA, as in the paper's supplement S1: vertices are activations, edges connect them. All are frozen.

They hold only numbers and strings, so they never form cycles: `gc=False` spares the search for those.
"""

from __future__ import annotations

from typing import Literal

import msgspec

BACKBONE_PRECEDENCE = 1
SKIP_PRECEDENCE = 0


class Vertex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A rank-3 activation; its size and depth follow from the incoming edges."""

    id: str
    type: Literal["linear", "bn_relu"]
    leakiness: float = 0.0
    """The slope of the rectifier below zero (bn_relu only)."""
    inputs_mutable: bool = True
    """Whether mutations may change the incoming edges; likewise the outgoing edges and the vertex itself."""
    outputs_mutable: bool = True
    properties_mutable: bool = True


class Edge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", gc=False):
    """A connection. Of several into one vertex, the one with the highest precedence decides its depth and scale."""

    id: str
    from_vertex: str
    to_vertex: str
    depth_precedence: int = BACKBONE_PRECEDENCE
    scale_precedence: int = BACKBONE_PRECEDENCE

    @property
    def arc(self) -> tuple[str, str]:
        return self.from_vertex, self.to_vertex


class Identity(Edge, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="identity", gc=False):
    """Passes its input on."""


class Conv(Edge, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="conv", gc=False):
    """A convolution without bias, padded to keep the size.

    The numbers are floats and rounded only when shapes are computed, so that small mutations add up.
    """

    depth_factor: float = 1.0
    """Output channels divided by input channels."""
    filter_half_width: float = 1.0
    """The filter width is 2 * half + 1."""
    filter_half_height: float = 1.0
    stride_scale: float = 0.0
    """The stride is 2 ** scale."""

    @property
    def filter_width(self) -> int:
        return 2 * round_half_up(self.filter_half_width) + 1

    @property
    def filter_height(self) -> int:
        return 2 * round_half_up(self.filter_half_height) + 1

    @property
    def stride(self) -> int:
        return 1 << round_half_up(self.stride_scale)

    def depth_out(self, depth_in: int) -> int:
        """Return the number of output channels, at least 1."""
        return max(1, round_half_up(depth_in * self.depth_factor))


def round_half_up(value: float) -> int:
    """Round to the nearest integer; Python's `round` would round both 0.5 and 1.5 to even numbers."""
    return int(value + 0.5)
