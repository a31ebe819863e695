"""The rules that every DNA keeps; a DNA that breaks one is never made.

The bounds only keep numbers computable: they lie far beyond any network that a machine could train, since the paper's
search space is meant to be unbounded.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from genepool.dna.elements import Conv, Edge, Identity, Vertex
from genepool.errors import InvalidDNAError

if TYPE_CHECKING:
    from genepool.dna.graph import DNA

MAX_VERTICES = 10_000
MAX_EDGES = 50_000
LEARNING_RATE_BOUNDS = (1e-12, 1e6)
DEPTH_FACTOR_BOUNDS = (1e-6, 1e6)
FILTER_HALF_BOUNDS = (0.0, 500.0)
STRIDE_SCALE_BOUNDS = (0.0, 16.0)
PRECEDENCE_BOUNDS = (-1_000_000, 1_000_000)

# IDs become parts of tensor names ('.' separates there), of file names and of log lines.
ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def check(dna: DNA) -> None:
    """Raises InvalidDNAError, naming the place and the rule, if the DNA breaks one."""
    _check_number("the learning rate", dna.learning_rate, LEARNING_RATE_BOUNDS)
    _check_counts(dna)
    for vertex in dna.vertices:
        _check_vertex(vertex)
    for edge in dna.edges:
        _check_edge(edge)
    _check_ids(dna)
    _check_ends(dna)
    _check_graph(dna)
    _check_primaries(dna)


def _check_counts(dna: DNA) -> None:
    if len(dna.vertices) < 2:
        raise InvalidDNAError(f"a DNA needs an input and an output vertex, this one has {len(dna.vertices)} vertices.")
    if len(dna.vertices) > MAX_VERTICES or len(dna.edges) > MAX_EDGES:
        raise InvalidDNAError(
            f"{len(dna.vertices)} vertices and {len(dna.edges)} edges are over the limit "
            f"of {MAX_VERTICES} and {MAX_EDGES}."
        )


def _check_vertex(vertex: Vertex) -> None:
    _check_id("vertex", vertex.id)
    _check_number(f"vertex '{vertex.id}': leakiness", vertex.leakiness, (0.0, 1.0))


def _check_edge(edge: Conv | Identity) -> None:
    _check_id("edge", edge.id)
    place = f"edge '{edge.id}'"
    _check_number(f"{place}: depth_precedence", edge.depth_precedence, PRECEDENCE_BOUNDS)
    _check_number(f"{place}: scale_precedence", edge.scale_precedence, PRECEDENCE_BOUNDS)
    if isinstance(edge, Conv):
        _check_number(f"{place}: depth_factor", edge.depth_factor, DEPTH_FACTOR_BOUNDS)
        _check_number(f"{place}: filter_half_width", edge.filter_half_width, FILTER_HALF_BOUNDS)
        _check_number(f"{place}: filter_half_height", edge.filter_half_height, FILTER_HALF_BOUNDS)
        _check_number(f"{place}: stride_scale", edge.stride_scale, STRIDE_SCALE_BOUNDS)


def _check_id(noun: str, name: str) -> None:
    if not ID_PATTERN.fullmatch(name):
        raise InvalidDNAError(
            f"the {noun} ID {name[:80]!r} is not allowed: 1 to 64 letters, digits, '-' and '_' make an ID."
        )


def _check_number(place: str, value: float, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidDNAError(f"{place} is {value:.6g}, but must lie between {low:g} and {high:g}.")


def _check_ids(dna: DNA) -> None:
    (name, count), *_ = Counter(thing.id for thing in (*dna.vertices, *dna.edges)).most_common(1)
    if count > 1:
        raise InvalidDNAError(f"the ID '{name}' is used {count} times; each vertex and edge needs its own.")


def _check_ends(dna: DNA) -> None:
    known = {vertex.id for vertex in dna.vertices}
    for edge in dna.edges:
        for end in edge.arc:
            if end not in known:
                raise InvalidDNAError(f"edge '{edge.id}' is dangling: there is no vertex {end[:80]!r}.")
    (arc, count), *_ = Counter(edge.arc for edge in dna.edges).most_common(1) or [(("", ""), 0)]
    if count > 1:
        raise InvalidDNAError(f"two edges lead from '{arc[0]}' to '{arc[1]}'; one is allowed.")


def _check_graph(dna: DNA) -> None:
    """One input, one output, no cycle: then every vertex lies on a path from the input to the output."""
    if len(dna.order) < len(dna.vertices):
        stuck = sorted({vertex.id for vertex in dna.vertices} - set(dna.order))
        raise InvalidDNAError(f"there is a cycle through or before vertex '{stuck[0]}'; edges must only lead forward.")
    entered = {edge.to_vertex for edge in dna.edges}
    left = {edge.from_vertex for edge in dna.edges}
    for noun, way, joined in (("input", "incoming", entered), ("output", "outgoing", left)):
        ends = [vertex.id for vertex in dna.vertices if vertex.id not in joined]
        if len(ends) > 1:
            raise InvalidDNAError(
                f"vertices '{ends[0]}' and '{ends[1]}' both have no {way} edge; only the {noun} may lack one."
            )


def _check_primaries(dna: DNA) -> None:
    """Where edges meet, one of them must decide the depth and one the scale."""
    into: dict[str, list[Edge]] = {}
    for edge in dna.edges:
        into.setdefault(edge.to_vertex, []).append(edge)
    for vertex, edges in into.items():
        for kind in ("depth", "scale"):
            ranks = sorted((getattr(edge, f"{kind}_precedence") for edge in edges), reverse=True)
            if len(ranks) > 1 and ranks[0] == ranks[1]:
                raise InvalidDNAError(
                    f"vertex '{vertex}' has two incoming edges of the highest {kind} precedence {ranks[0]}; "
                    "one edge must decide."
                )
