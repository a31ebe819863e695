"""The encoding of an individual: a graph of vertices (activations) and edges (connections), and learning rates.

Follows the paper's "Encoding and Mutations" and supplement S1. An edit returns a new DNA, and none can break a rule of
`validation.py`. The input is the only vertex without incoming edges, the output the only one without outgoing edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec
from msgspec.structs import force_setattr, replace

from genepool.dna.topology import topological_order
from genepool.dna.validation import check, usual_order
from genepool.layers import Conv, Edge, Layer, Vertex, label_of, missing_among, missing_error


def rates_label(learning_rate: float, body_rate: float) -> str:
    """Both learning rates as text: `0.1`, or `0.1 (body 0.01)` if that of the other layers differs."""
    return f"{learning_rate:.4g}" + (f" (body {learning_rate * body_rate:.3g})" if body_rate != 1.0 else "")


class DNA(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An individual without its trained weights. Vertices and edges are in canonical order."""

    learning_rate: float
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    odds: tuple[tuple[str, float], ...] = ()
    """Differs from the paper's main results: the odds of each mutation by name, if they evolve too."""
    body_rate: float = 1.0
    """Differs from the paper if it is not 1: the learning rate of all layers but the classifier, as a fraction of
    `learning_rate`. Layers that were trained on many images should change less than a new classifier."""

    def __post_init__(self) -> None:
        if (order := usual_order(self)) is not None:
            self.__dict__["order"] = order
            return
        check(self)
        force_setattr(self, "odds", tuple(sorted(self.odds)))
        place = {vertex: i for i, vertex in enumerate(self.order)}
        vertices = [place[vertex.id] for vertex in self.vertices]
        if vertices != sorted(vertices):
            force_setattr(self, "vertices", tuple(sorted(self.vertices, key=lambda v: place[v.id])))
        edges = [(place[edge.to_vertex], -edge.depth_precedence, place[edge.from_vertex]) for edge in self.edges]
        if edges != (ordered := sorted(edges)):
            by_key = dict(zip(edges, self.edges, strict=True))
            force_setattr(self, "edges", tuple([by_key[key] for key in ordered]))

    @cached_property
    def vertex(self) -> dict[str, Vertex]:
        return {vertex.id: vertex for vertex in self.vertices}

    @cached_property
    def edge(self) -> dict[str, Edge]:
        return {edge.id: edge for edge in self.edges}

    @cached_property
    def edges_in(self) -> dict[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {vertex.id: [] for vertex in self.vertices}
        for edge in self.edges:
            found[edge.to_vertex].append(edge)
        return {vertex: tuple(edges) for vertex, edges in found.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The vertices' IDs in topological order: the input first, the output last."""
        return topological_order([vertex.id for vertex in self.vertices], self.arcs)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return *self.vertices, *self.edges

    @property
    def arcs(self) -> list[tuple[str, str]]:
        return [(edge.from_vertex, edge.to_vertex) for edge in self.edges]

    @property
    def input(self) -> str:
        return self.order[0]

    @property
    def output(self) -> str:
        return self.order[-1]

    def scale_primary(self, vertex: str) -> Edge:
        """The incoming edge that decides the vertex's spatial size."""
        return max(self.edges_in[vertex], key=lambda edge: edge.scale_precedence)

    def depth_primary(self, vertex: str) -> Edge:
        """The incoming edge that decides the vertex's number of channels."""
        return max(self.edges_in[vertex], key=lambda edge: edge.depth_precedence)

    @cached_property
    def backbone(self) -> tuple[Edge, ...]:
        """The edges of highest depth precedence, from the input to the output."""
        path: list[Edge] = []
        vertex = self.output
        while vertex != self.input:
            path.append(self.depth_primary(vertex))
            vertex = path[-1].from_vertex
        return tuple(reversed(path))

    @cached_property
    def backbone_vertices(self) -> tuple[str, ...]:
        """The vertices along the backbone, from the input to the output."""
        return (self.input, *(edge.to_vertex for edge in self.backbone))

    @cached_property
    def skips(self) -> tuple[Edge, ...]:
        """The edges off the backbone that connect two of its vertices."""
        on, path = set(self.backbone_vertices), {edge.id for edge in self.backbone}
        return tuple(e for e in self.edges if e.id not in path and e.from_vertex in on and e.to_vertex in on)

    @cached_property
    def convs(self) -> tuple[Conv, ...]:
        """The convolutions that the paper's mutations draw from. The kind is named here so that it is named once."""
        return tuple([edge for edge in self.edges if isinstance(edge, Conv)])

    @cached_property
    def missing_kinds(self) -> tuple[str, ...]:
        """The kinds of its layers that this process lacks."""
        return missing_among(self.layers)

    def require_kinds(self) -> None:
        """Raise MissingLayerError if this process lacks a kind."""
        if self.missing_kinds:
            raise missing_error(self.missing_kinds)

    def is_mutable(self, edge: Edge) -> bool:
        """Return whether mutations may change this edge: both of its ends must allow it."""
        return self.vertex[edge.from_vertex].outputs_mutable and self.vertex[edge.to_vertex].inputs_mutable

    def in_a_line(self) -> str:
        """Describe the backbone as in the paper's figures, `C3x3 +BN+R | C3x3/2 | ...`, then skips and the rest."""
        layers: list[str] = []
        for edge in self.backbone:
            text, active = label_of(edge), label_of(self.vertex[edge.to_vertex])
            if text:
                layers.append(f"{text}+{active}" if active else text)
            elif active and layers:
                layers[-1] += f"+{active}"
            elif active:
                layers.append(active)
        skips = f", {len(self.skips)} skip{'s' if len(self.skips) > 1 else ''}" if self.skips else ""
        on = set(self.backbone_vertices)
        beside = [edge for edge in self.edges if edge.label and not on.issuperset(edge.arc)]
        noun = "convolution" if set(beside) <= set(self.convs) else "layer"
        others = f", {len(beside)} {noun}{'s' if len(beside) > 1 else ''} beside" if beside else ""
        return (" ".join(layers) or "no hidden layer") + skips + others

    def edited(
        self, *, learning_rate: float | None = None, put: Iterable[Vertex | Edge] = (), drop: Iterable[str] = ()
    ) -> DNA:
        """Return a copy with vertices and edges added, replaced (same ID) or dropped."""
        gone = set(drop)
        vertices = {vertex.id: vertex for vertex in self.vertices if vertex.id not in gone}
        edges = {edge.id: edge for edge in self.edges if edge.id not in gone}
        for item in put:
            if isinstance(item, Vertex):
                vertices[item.id] = item
            else:
                edges[item.id] = item
        return replace(
            self,
            learning_rate=self.learning_rate if learning_rate is None else learning_rate,
            vertices=tuple(vertices.values()),
            edges=tuple(edges.values()),
        )

    def renamed(self, names: dict[str, str]) -> DNA:
        """Return a copy in which vertices and edges have other IDs."""

        def new(name: str) -> str:
            return names.get(name, name)

        vertices = tuple(replace(vertex, id=new(vertex.id)) for vertex in self.vertices)
        edges = tuple(
            replace(edge, id=new(edge.id), from_vertex=new(edge.from_vertex), to_vertex=new(edge.to_vertex))
            for edge in self.edges
        )
        return replace(self, vertices=vertices, edges=edges)
