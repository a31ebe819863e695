"""Channels that belong together: which activations share their channel numbers, and networks of other widths.

An identity adds channel i to channel i, so channel i can only be removed from both of its ends. Layers that keep their
channels (poolings, depthwise convolutions, identities) and sums tie activations together; layers with a factor of their
own separate them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from genepool.dna.graph import DNA
from genepool.dna.shapes import shapes
from genepool.layers import Edge, Shape


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


def with_widths(dna: DNA, image: Shape, widths: Mapping[str, int]) -> DNA:
    """Return a copy in which the values of the given edges have exactly these numbers of channels; other edges with a
    factor of their own keep theirs."""
    before = shapes(dna, image).edges
    channels = {dna.input: image.channels}
    changed: list[Edge] = []
    for vertex in dna.order[1:]:
        brought = {}
        for edge in dna.edges_in[vertex]:
            source = channels[edge.from_vertex]
            brought[edge.id] = edge.depth_out(source)
            if edge.sets_depth and brought[edge.id] != (wanted := widths.get(edge.id, before[edge.id].channels)):
                brought[edge.id] = wanted
                changed.append(replace(edge, depth_factor=wanted / source))
        channels[vertex] = brought[dna.depth_primary(vertex).id]
    return dna.edited(put=changed) if changed else dna


def fitting_image(dna: DNA, pixels: int = 256) -> Shape:
    """Return the shape of an image that the network may have been made for, since a DNA does not say for which: grey if
    its first layers then have whole numbers of channels, because these are whole for colours too, else of colours."""

    def remainder(channels: int) -> float:
        firsts = [edge for edge in dna.edges if edge.from_vertex == dna.input and edge.sets_depth]
        products = [channels * float(getattr(edge, "depth_factor")) for edge in firsts]  # noqa: B009
        return sum(abs(product - round(product)) for product in products)

    return Shape(pixels, pixels, min((1, 3), key=lambda channels: round(remainder(channels), 6)))
