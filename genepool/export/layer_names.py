"""A network layer by layer with readable names. No torch.

Vertices are numbered in order; the input is 0. The convolution into vertex 3 is `conv3` (`conv3a`, `conv3b` if there
are several), its batch normalisation is `norm3`, and the fully connected layer is `classify`.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from genepool.dna import DNA, Shape, shapes
from genepool.layers import Edge, Layer, Vertex

CLASSIFY = "classify"


class Term(NamedTuple):
    """One edge: what it makes of the value of an earlier vertex."""

    source: int
    edge: Edge
    name: str
    source_shape: Shape
    shape: Shape
    """The shape before it is fitted to the vertex."""


class Step(NamedTuple):
    """One vertex: its terms are fitted and summed, and the vertex computes with the sum."""

    number: int
    shape: Shape
    terms: tuple[Term, ...]
    vertex: Vertex
    name: str


def steps(dna: DNA, image: Shape) -> tuple[Step, ...]:
    sizes, place = shapes(dna, image), {vertex.id: number for number, vertex in enumerate(dna.vertices)}
    found = []
    for number, vertex in enumerate(dna.vertices):
        names = _edge_names(number, dna.edges_in[vertex.id])
        terms = tuple(
            Term(place[edge.from_vertex], edge, name, sizes.vertices[edge.from_vertex], sizes.edges[edge.id])
            for edge, name in zip(dna.edges_in[vertex.id], names, strict=True)
        )
        found.append(Step(number, sizes.vertices[vertex.id], terms, vertex, f"{_word(vertex)}{number}"))
    return tuple(found)


def tensor_names(dna: DNA, image: Shape) -> dict[str, str]:
    """Map each tensor's name in `genepool.nn.model` to its readable name."""
    names: dict[str, str] = {}
    for step in steps(dna, image):
        for term in step.terms:
            names |= _tensors(term.edge, term.name, term.source_shape)
        names |= _tensors(step.vertex, step.name, step.shape)
    return names | {f"classifier_{dna.output}.{part}": f"{CLASSIFY}.{part}" for part in ("weight", "bias")}


def _tensors(layer: Layer, name: str, source: Shape) -> dict[str, str]:
    return {f"{layer.module_name}.{part}": f"{name}.{part}" for part in layer.weights(source)}


def _edge_names(number: int, edges: tuple[Edge, ...]) -> list[str]:
    """A letter tells edges of the same kind into one vertex apart."""
    total, so_far = Counter(_word(edge) for edge in edges), Counter[str]()
    names = []
    for word in map(_word, edges):
        names.append(f"{word}{number}" + (_letters(so_far[word]) if total[word] > 1 else ""))
        so_far[word] += 1
    return names


def _word(layer: Layer) -> str:
    return layer.NAME or layer.type.replace("-", "_")


def _letters(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    text = ""
    while True:
        text = chr(ord("a") + number % 26) + text
        number = number // 26 - 1
        if number < 0:
            return text
