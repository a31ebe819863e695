"""The shape of every vertex for images of any size, networks of other widths, and channels that belong together.

A vertex takes its size from the incoming edge of highest scale precedence and its depth from the one of highest depth
precedence: the paper's scale and depth resolution. A stride s turns n pixels into ceil(n / s).

An identity adds channel i to channel i, so channel i can only be removed from both of its ends. Layers that keep their
channels (poolings, depthwise convolutions, identities) and sums tie activations together; layers with a factor of their
own separate them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from genepool.dna.graph import DNA
from genepool.layers import Edge, Shape, blaming


def cropped(image: Shape, fraction: float) -> Shape:
    """Return the shape of a crop whose sides are that fraction of the image's."""
    return Shape(max(1, round(image.height * fraction)), max(1, round(image.width * fraction)), image.channels)


class Shapes(NamedTuple):
    """The shapes of all activations of a network, by ID."""

    vertices: dict[str, Shape]
    edges: dict[str, Shape]
    """The shape of each edge's value before it is fitted to its vertex."""


def shapes(dna: DNA, image: Shape) -> Shapes:
    """Compute the shapes of a network for images of that shape."""
    with blaming(dna.layers):
        return _shapes(dna, image)


def _shapes(dna: DNA, image: Shape) -> Shapes:
    vertices: dict[str, Shape] = {dna.input: image}
    edges: dict[str, Shape] = {}
    for vertex in dna.order[1:]:
        for edge in dna.edges_in[vertex]:
            edges[edge.id] = edge.result(vertices[edge.from_vertex])
        scale, depth = edges[dna.scale_primary(vertex).id], edges[dna.depth_primary(vertex).id]
        vertices[vertex] = Shape(scale.height, scale.width, depth.channels)
    return Shapes(vertices, edges)


def in_steps(dna: DNA, parent: DNA, image: Shape, step: int) -> DNA:
    """Round changed widths to multiples of `step`; layers whose factor did not change keep their width.

    Differs from the paper, which allows any width, and where a change propagates to all later layers because factors
    are relative. CPUs compute 19 channels in the time of 32, and 16 in less than half of that; and widening the whole
    network at once soon exceeds the budget.
    """
    with blaming(dna.layers):
        before = shapes(parent, image).edges
        return _resized(dna, image, lambda edge, width: _width(edge, parent, width, before, step))


def with_widths(dna: DNA, image: Shape, widths: Mapping[str, int]) -> DNA:
    """Return a copy in which the values of the given edges have exactly these numbers of channels; other edges with a
    factor of their own keep theirs."""
    before = shapes(dna, image).edges
    return _resized(dna, image, lambda edge, _: widths.get(edge.id, before[edge.id].channels))


def _resized(dna: DNA, image: Shape, wanted: Callable[[Edge, int], int]) -> DNA:
    """Return a copy in which each edge with a factor of its own has the wanted width, given the one it would have."""
    channels = {dna.input: image.channels}
    changed: list[Edge] = []
    for vertex in dna.order[1:]:
        brought = {}
        for edge in dna.edges_in[vertex]:
            source, width = channels[edge.from_vertex], edge.depth_out(channels[edge.from_vertex])
            if edge.sets_depth and (new := wanted(edge, width)) != width:
                width = new
                changed.append(replace(edge, depth_factor=width / source))
            brought[edge.id] = width
        channels[vertex] = brought[dna.depth_primary(vertex).id]
    return dna.edited(put=changed) if changed else dna


def _width(edge: Edge, parent: DNA, width: int, before: dict[str, Shape], step: int) -> int:
    old = parent.edge.get(edge.id)
    if old is None or not old.sets_depth:
        return _in_steps(width, None, step)
    known = before[edge.id].channels
    is_same = getattr(old, "depth_factor", None) == getattr(edge, "depth_factor", None)
    return known if is_same else _in_steps(width, known, step)


def _in_steps(width: int, before: int | None, step: int) -> int:
    """Grow or shrink by at least one step, so that no mutation is without effect."""
    if before is None:
        return step * max(1, round(width / step))
    if width > before:
        return step * -(-width // step)
    return width if width == before else max(1, width // step) * step


def tied(dna: DNA) -> tuple[tuple[str, ...], ...]:
    """Return groups of the IDs of vertices and edges, an edge's standing for its value. Within a group channel i means
    the same for all, although some may have fewer channels than others: a sum cuts or pads its summands at the end.
    """
    group = {name: [name] for name in (*dna.order, *dna.edge)}

    def join(one: str, other: str) -> None:
        first, second = group[one], group[other]
        if first is not second:
            first += second
            for name in second:
                group[name] = first

    for edge in dna.edges:
        join(edge.to_vertex, edge.id)
        if not edge.sets_depth:
            join(edge.from_vertex, edge.id)
    return tuple(tuple(names) for names in {id(names): names for names in group.values()}.values())


def fitting_image(dna: DNA, pixels: int = 256) -> Shape:
    """Return the shape of an image that the network may have been made for, since a DNA does not say for which: grey if
    its first layers then have whole numbers of channels, because these are whole for colours too, else of colours."""

    def remainder(channels: int) -> float:
        firsts = [edge for edge in dna.edges if edge.from_vertex == dna.input and edge.sets_depth]
        products = [channels * float(getattr(edge, "depth_factor")) for edge in firsts]  # noqa: B009
        return sum(abs(product - round(product)) for product in products)

    return Shape(pixels, pixels, min((1, 3), key=lambda channels: round(remainder(channels), 6)))
