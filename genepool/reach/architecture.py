"""When two DNAs are the same architecture, and which architectures mutations can make at all.

Equal are networks that compute the same function of images and weights, and train alike at the same learning rate:
the same graph, activations, filter sizes, strides, factors of channels (to nine digits), and the same edge that decides
where several meet. Not looked at: IDs, which only name weights; the learning rate, which `alter-learning-rate` brings
anywhere; what mutations may touch; digits of filter sizes and strides that rounding takes away; numbers of precedences.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from genepool.dna import DNA, Conv, Identity

DIGITS = 1e-9


def same_architecture(one: DNA, other: DNA) -> bool:
    """Whether two DNAs whose vertices all lie on their backbones are equal but for what does not count."""
    these, those = _portrait(one), _portrait(other)
    return these.outline == those.outline and all(
        same_factor(a, b) for a, b in zip(these.factors, those.factors, strict=True)
    )


def same_factor(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=DIGITS)


class _Portrait(NamedTuple):
    outline: tuple[object, ...]
    factors: list[float]
    """Of channels, of each convolution in the order of the outline."""


def _portrait(dna: DNA) -> _Portrait:
    """A DNA without names: vertices by their place on the backbone."""
    place = {vertex: i for i, vertex in enumerate(dna.backbone_vertices)}
    if len(place) < len(dna.vertices):
        raise ValueError("only networks with all vertices on the backbone have a portrait")
    activations = tuple(dna.vertex[name].type for name in place)
    leaks = tuple(dna.vertex[name].leakiness for name in place if dna.vertex[name].type == "bn_relu")
    edges = sorted(dna.edges, key=lambda edge: (place[edge.to_vertex], place[edge.from_vertex]))
    lines = tuple((place[edge.from_vertex], place[edge.to_vertex], _kind(dna, edge)) for edge in edges)
    return _Portrait((activations, leaks, lines), [edge.depth_factor for edge in edges if isinstance(edge, Conv)])


def _kind(dna: DNA, edge: Conv | Identity) -> tuple[object, ...]:
    decides = (edge == dna.depth_primary(edge.to_vertex), edge == dna.scale_primary(edge.to_vertex))
    if isinstance(edge, Conv):
        return ("conv", edge.filter_width, edge.filter_height, edge.stride, *decides)
    return ("identity", *decides)


def obstacle(dna: DNA) -> str | None:
    """Why no sequence of the eleven mutations ends at this architecture, or None: what all of them leave as it is.

    They lengthen and shorten one column in front of the initial edge, which stays the last, and join its vertices.
    """
    for end, name in (("input", dna.input), ("output", dna.output)):
        if dna.vertex[name].type != "linear":
            return f"its {end} '{name}' has batch normalisation, and no mutation changes the {end}."
    column = set(dna.backbone_vertices)
    for vertex in dna.vertices:
        if vertex.id not in column:
            return (
                f"its vertex '{vertex.id}' lies off the backbone, and mutations insert vertices into the backbone only."
            )
        if vertex.type == "bn_relu" and vertex.leakiness:
            return f"its vertex '{vertex.id}' has a leaky rectifier, and no mutation makes one."
    if isinstance(dna.backbone[-1], Conv):
        return (
            f"its last edge '{dna.backbone[-1].id}' is a convolution into the output, and mutations insert "
            "convolutions only in front of the initial one-to-one edge."
        )
    for skip in dna.skips:
        if isinstance(skip, Conv):
            return f"its skip '{skip.id}' is a convolution, and add-skip makes one-to-one connections only."
    for edge in dna.backbone:
        if dna.scale_primary(edge.to_vertex) != edge:
            return f"a skip decides the size of its vertex '{edge.to_vertex}', and mutations give that to the backbone."
    return None
