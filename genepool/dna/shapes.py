"""The size and depth of every vertex for images of any size: the paper's scale and depth resolution, on numbers only.

A vertex takes its size from the incoming edge of highest scale precedence and its depth from the one of highest depth
precedence. What other edges bring is resized to that (zeroth-order interpolation) and cut or zero-padded in channels.
A stride s turns n pixels into ceil(n / s); sizes need not be powers of two.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from genepool.dna.elements import Conv, Edge
from genepool.dna.graph import DNA
from genepool.errors import ModelTooLargeError

MAX_CHANNELS = 1_000_000


class Shape(NamedTuple):
    """Of an image or an activation."""

    height: int
    width: int
    channels: int

    @property
    def values(self) -> int:
        """How many numbers it holds."""
        return self.height * self.width * self.channels


def cropped(image: Shape, share: float) -> Shape:
    """A part of an image with sides of that share."""
    return Shape(max(1, round(image.height * share)), max(1, round(image.width * share)), image.channels)


class Shapes(NamedTuple):
    """Of all activations of a network."""

    vertices: dict[str, Shape]
    """Of each vertex, by ID."""
    edges: dict[str, Shape]
    """Of what each edge brings, by ID, before it is made to fit its vertex."""


def shapes(dna: DNA, image: Shape) -> Shapes:
    """The shapes of a network for images of that shape."""
    vertices: dict[str, Shape] = {dna.input: image}
    edges: dict[str, Shape] = {}
    for vertex in dna.order[1:]:
        for edge in dna.edges_in[vertex]:
            edges[edge.id] = _edge_shape(edge, vertices[edge.from_vertex])
        scale, depth = edges[dna.scale_primary(vertex).id], edges[dna.depth_primary(vertex).id]
        vertices[vertex] = Shape(scale.height, scale.width, depth.channels)
    return Shapes(vertices, edges)


def _edge_shape(edge: Edge, source: Shape) -> Shape:
    if not isinstance(edge, Conv):
        return source
    channels = edge.depth_out(source.channels)
    if channels > MAX_CHANNELS:
        raise ModelTooLargeError(f"edge '{edge.id}' has {channels} channels, more than {MAX_CHANNELS}.")
    return Shape(-(-source.height // edge.stride), -(-source.width // edge.stride), channels)


def in_steps(dna: DNA, parent: DNA, image: Shape, step: int) -> DNA:
    """A child in which only those convolutions are wider or narrower whose own factor is another than in the parent.

    They are so by multiples of a number. Differs from the paper, which has any width, and where one change goes through
    to the end, since factors are relative. Processors compute 19 channels in the time of 32, and 16 in less than half
    of that; and what makes the whole network wider at once can soon not be afforded.
    """
    before = shapes(parent, image).edges
    channels = {dna.input: image.channels}
    changed: list[Conv] = []
    for vertex in dna.order[1:]:
        brought = {}
        for edge in dna.edges_in[vertex]:
            source = width = channels[edge.from_vertex]
            if isinstance(edge, Conv):
                old = parent.edge.get(edge.id)
                known = before[edge.id].channels if isinstance(old, Conv) else None
                is_same = isinstance(old, Conv) and old.depth_factor == edge.depth_factor
                width = known if is_same and known else _in_steps(edge.depth_out(source), known, step)
                if width != edge.depth_out(source):
                    changed.append(replace(edge, depth_factor=width / source))
            brought[edge.id] = width
        channels[vertex] = brought[dna.depth_primary(vertex).id]
    return dna.edited(put=changed) if changed else dna


def _in_steps(width: int, before: int | None, step: int) -> int:
    """What has grown grows by a step at least, what has shrunk shrinks by one, or mutations would come to nothing."""
    if before is None:
        return step * max(1, round(width / step))
    if width > before:
        return step * -(-width // step)
    return width if width == before else max(1, width // step) * step
