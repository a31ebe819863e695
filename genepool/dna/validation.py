"""The rules that every DNA obeys. Bounds only keep numbers computable, since the paper's search space is unbounded."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from genepool.errors import InvalidDNAError
from genepool.layers import BACKBONE_PRECEDENCE, PRECEDENCE_BOUNDS, SKIP_PRECEDENCE, Edge

if TYPE_CHECKING:
    from genepool.dna.graph import DNA

T = TypeVar("T")
MAX_VERTICES = 10_000
MAX_EDGES = 50_000
LEARNING_RATE_BOUNDS = (1e-12, 1e6)
BODY_RATE_BOUNDS = (1e-6, 1e3)
ODDS_BOUNDS = (1e-6, 1e6)
MAX_ODDS = 1000

_EDGE_BOUNDS = {"depth_precedence": PRECEDENCE_BOUNDS, "scale_precedence": PRECEDENCE_BOUNDS}

# IDs become parts of tensor names (where '.' separates), file names and log lines.
ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_is_id = ID_PATTERN.fullmatch
_are_ids = re.compile(rf"(?:{ID_PATTERN.pattern}\n)+", re.ASCII).fullmatch


def usual_order(dna: DNA) -> tuple[str, ...] | None:
    """Return the vertices' IDs in order if a quick test proves the DNA valid and canonical, else None. It covers the
    usual case: a backbone through all vertices, and skips. Then there is only one order. None proves nothing; `check`
    decides and has the messages. Every birth makes two DNAs, and nearly all are usual.
    """
    low, high = LEARNING_RATE_BOUNDS
    if dna.odds or dna.body_rate != 1.0 or not low <= dna.learning_rate <= high:
        return None
    place = {vertex.id: number for number, vertex in enumerate(dna.vertices) if vertex.is_usual()}
    names = [*place, *[edge.id for edge in dna.edges]]
    if not 2 <= len(place) == len(dna.vertices) <= MAX_VERTICES or len(dna.edges) > MAX_EDGES:
        return None
    if len(set(names)) < len(names) or not _all_ids(names):
        return None
    order = tuple(place)
    return order if _is_chain_with_skips(dna.edges, order, place) else None


def _is_chain_with_skips(edges: tuple[Edge, ...], order: tuple[str, ...], place: dict[str, int]) -> bool:
    """Return whether each vertex has a backbone edge from the one before, then skips from earlier ones."""
    entered, skipped = 0, -1
    here, ahead = order[0], iter(order[1:])
    for edge in edges:
        rank = edge.depth_precedence
        if rank != edge.scale_precedence or not edge.is_usual():
            return False
        if rank == BACKBONE_PRECEDENCE:
            before, here = here, next(ahead, "")
            if edge.from_vertex != before or edge.to_vertex != here:
                return False
            entered, skipped = entered + 1, -1
        elif rank == SKIP_PRECEDENCE and edge.to_vertex == here:
            source = place.get(edge.from_vertex, -1)
            if not skipped < source < entered - 1:
                return False
            skipped = source
        else:
            return False
    return entered == len(order) - 1


def check(dna: DNA) -> None:
    """Raise InvalidDNAError if the DNA breaks a rule."""
    _check_bounds("the learning rate", dna.learning_rate, LEARNING_RATE_BOUNDS)
    _check_bounds("the body rate", dna.body_rate, BODY_RATE_BOUNDS)
    _check_counts(dna)
    _check_ids(dna)
    if dna.odds:
        _check_odds(dna)
    for vertex in dna.vertices:
        for name, bounds in vertex.BOUNDS.items():
            _check_bounds(f"vertex '{vertex.id}': {name}", getattr(vertex, name), bounds)
    for edge in dna.edges:
        for name, bounds in (_EDGE_BOUNDS | dict(edge.BOUNDS)).items():
            _check_bounds(f"edge '{edge.id}': {name}", getattr(edge, name), bounds)
    _check_ends(dna)
    _check_graph(dna)
    _check_primaries(dna)


def _check_counts(dna: DNA) -> None:
    if len(dna.vertices) < 2:
        raise InvalidDNAError(f"a DNA needs an input and an output, but this one has {len(dna.vertices)} vertices.")
    if len(dna.vertices) > MAX_VERTICES or len(dna.edges) > MAX_EDGES:
        raise InvalidDNAError(
            f"{len(dna.vertices)} vertices and {len(dna.edges)} edges exceed the limit "
            f"of {MAX_VERTICES} and {MAX_EDGES}."
        )


def _check_bounds(place: str, value: float, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low <= value <= high:  # NaN is not between any two numbers
        text = "far too large" if isinstance(value, int) and abs(value) > 10**300 else f"{value:.6g}"
        raise InvalidDNAError(f"{place} is {text} but must be between {low:g} and {high:g}.")


def _check_ids(dna: DNA) -> None:
    names = [thing.id for thing in (*dna.vertices, *dna.edges)]
    if not _all_ids(names):
        place = next(place for place, name in enumerate(names) if not _is_id(name))
        noun = "vertex" if place < len(dna.vertices) else "edge"
        raise InvalidDNAError(
            f"the {noun} ID {names[place][:80]!r} is not allowed; use 1 to 64 letters, digits, '-' and '_'."
        )
    if (repeated := _most_repeated(names)) is not None:
        name, count = repeated
        raise InvalidDNAError(f"the ID '{name}' is used {count} times; each vertex and edge needs its own.")


def _all_ids(names: list[str]) -> bool:
    # One match for all of them; an ID that contains a newline makes more lines than there are IDs.
    lines = "\n".join(names) + "\n"
    return _are_ids(lines) is not None and lines.count("\n") == len(names)


def _check_odds(dna: DNA) -> None:
    names = [name for name, _ in dna.odds]
    if len(names) > MAX_ODDS or len(set(names)) < len(names) or not all(map(_is_id, names)):
        raise InvalidDNAError("the odds of its mutations have invalid, repeated or too many names.")
    for name, odds in dna.odds:
        _check_bounds(f"the odds of '{name}'", odds, ODDS_BOUNDS)


def _check_ends(dna: DNA) -> None:
    known, arcs = {vertex.id for vertex in dna.vertices}, dna.arcs
    if not known.issuperset(chain.from_iterable(arcs)):
        edge, end = next((edge, end) for edge in dna.edges for end in edge.arc if end not in known)
        raise InvalidDNAError(f"edge '{edge.id}' is dangling: there is no vertex {end[:80]!r}.")
    if (repeated := _most_repeated(arcs)) is not None:
        (source, target), _ = repeated
        raise InvalidDNAError(f"two edges lead from '{source}' to '{target}'; only one is allowed.")


def _most_repeated(items: list[T]) -> tuple[T, int] | None:
    """Return the most frequent item and its count, or None if all differ."""
    return None if len(set(items)) == len(items) else Counter(items).most_common(1)[0]


def _check_graph(dna: DNA) -> None:
    """Check for one input, one output and no cycle: then every vertex lies on a path from input to output."""
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
    meeting: dict[str, list[Edge]] = {}
    for edge in dna.edges:
        meeting.setdefault(edge.to_vertex, []).append(edge)
    for vertex, edges in meeting.items():
        if len(edges) > 1:
            _check_primary(vertex, "depth", [edge.depth_precedence for edge in edges])
            _check_primary(vertex, "scale", [edge.scale_precedence for edge in edges])


def _check_primary(vertex: str, kind: str, ranks: list[int]) -> None:
    highest = max(ranks)
    if ranks.count(highest) > 1:
        raise InvalidDNAError(
            f"vertex '{vertex}' has two incoming edges of the highest {kind} precedence {highest}; "
            "one edge must decide."
        )
