"""A sequence of the paper's mutations to an architecture: its column is built from the input on, then the skips."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import msgspec

from genepool.dna import DNA, Conv, initial
from genepool.dna.elements import round_half_up
from genepool.errors import UnreachableError
from genepool.mutations import apply
from genepool.reach.architecture import obstacle, same_architecture, same_factor
from genepool.reach.chance import Tape, Wishes


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One mutation; the keys of its JSON form are documented and stay."""

    mutation: str
    what: str
    """What it does, in words."""
    numbers: tuple[int | float, ...]
    """That it draws: the raw numbers of a generator, of `random()` (0 to 1) or `getrandbits()` (whole)."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that lead from the initial DNA to an architecture, and the DNA that they really end at."""

    steps: tuple[Step, ...]
    dna: DNA


def reach(goal: DNA) -> Route:
    """A route to the architecture of a DNA, verified by the mutations themselves.

    UnreachableError tells why there is none.
    """
    if (reason := obstacle(goal)) is not None:
        raise UnreachableError(f"The paper's mutations cannot reach this architecture: {reason}")
    builder = _Builder()
    vertices = {goal.input: builder.dna.input, goal.output: builder.dna.output}
    for edge in goal.backbone[:-1]:
        active = goal.vertex[edge.to_vertex].type == "bn_relu"
        vertices[edge.to_vertex] = builder.convolution(edge, active) if isinstance(edge, Conv) else builder.one(active)
    for skip in goal.skips:
        builder.skip(vertices[skip.from_vertex], vertices[skip.to_vertex])
    route = Route(steps=tuple(builder.steps), dna=follow(builder.steps))
    if not same_architecture(route.dna, goal):
        raise AssertionError("the mutations found lead elsewhere")
    return route


def follow(steps: Iterable[Step], start: DNA | None = None) -> DNA:
    """Where the steps lead: each applied by its mutation's own code, with its numbers for a random generator."""
    dna = initial() if start is None else start
    for step in steps:
        tape = Tape(step.numbers)
        dna = apply(step.mutation, dna, tape)
        if tape.left:
            raise ValueError(f"{step.mutation} left {tape.left} numbers")
    return dna


class _Builder:
    """Adds to the end of the column, in front of the initial edge."""

    def __init__(self) -> None:
        self.dna = initial()
        self.steps: list[Step] = []
        self._trunk = self.dna.backbone[-1].id
        self._names = count(1)

    def _do(self, mutation: str, what: str, *wishes: Any) -> set[str]:
        """Applies a mutation that draws what is wished; the IDs that are new."""
        rng, before = Wishes(wishes), self.dna
        self.dna = apply(mutation, before, rng)
        self.steps.append(Step(mutation=mutation, what=what, numbers=tuple(rng.numbers)))
        return {thing.id for thing in (*self.dna.vertices, *self.dna.edges)} - {*before.vertex, *before.edge}

    def _insert(self, mutation: str, what: str, active: bool, *more: Any) -> tuple[str, str]:
        """A new edge and vertex before the end; their IDs."""
        kind = 0.25 if active else 0.75
        vertex, edge = next(self._names), next(self._names)
        new = self._do(mutation, f"{what}{' +BN+R' if active else ''}", kind, self._trunk, vertex, *more, edge)
        [edge_id] = new & self.dna.edge.keys()
        [vertex_id] = new & self.dna.vertex.keys()
        return edge_id, vertex_id

    def one(self, active: bool) -> str:
        """A one-to-one connection; the ID of the vertex behind it."""
        return self._insert("insert-one-to-one", "at the end", active)[1]

    def convolution(self, like: Conv, active: bool) -> str:
        """A convolution with the numbers of another; the ID of the vertex behind it."""
        scale = float(min(1, round_half_up(like.stride_scale)))
        name, vertex = self._insert("insert-convolution", f"at the end, stride {2**scale:g}", active, scale)
        self._set_channels(name, like.depth_factor)
        self._set_filter(name, like)
        self._set_stride(name, like)
        return vertex

    def _conv(self, name: str) -> Conv:
        conv = self.dna.edge[name]
        assert isinstance(conv, Conv)
        return conv

    def _set_channels(self, name: str, factor: float) -> None:
        while not same_factor(now := self._conv(name).depth_factor, factor):
            wish = min(max(factor, now / 2), now * 2)
            self._do("alter-number-of-channels", f"{wish:.6g} times what comes in", name, wish)

    def _set_filter(self, name: str, like: Conv) -> None:
        for side, first in (("width", 0.25), ("height", 0.75)):
            wanted = getattr(like, f"filter_{side}")
            while getattr(conv := self._conv(name), f"filter_{side}") != wanted:
                now = 2 * getattr(conv, f"filter_half_{side}") + 1
                nearer = min(max(wanted, now / 2), now * 2)
                self._do("filter-size", f"{side} {wanted}, from {now:.4g} to {nearer:.4g}", name, first, nearer)

    def _set_stride(self, name: str, like: Conv) -> None:
        while (now := self._conv(name)).stride != like.stride:
            wish = min(1.0, round_half_up(like.stride_scale) - now.stride_scale)
            self._do("alter-stride", f"{now.stride} towards {like.stride}", name, wish)

    def skip(self, source: str, target: str) -> None:
        """A one-to-one connection between two vertices of the column."""
        place = {vertex: i for i, vertex in enumerate(self.dna.backbone_vertices)}
        what = f"from vertex {place[source]} to vertex {place[target]} of the backbone"
        self._do("add-skip", what, source, target, next(self._names))
