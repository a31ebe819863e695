"""Sequences of the paper's mutations that lead from the initial network to a given architecture.

The mutations' own code is run with a random generator whose draws are chosen (`ChosenDraws`). It records the raw
numbers behind the draws, and a second generator plays them back (`RecordedDraws`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, MutableSequence, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from genepool.dna import DNA, PUBLISHED, ZOO, codec, initial, wide_resnet
from genepool.errors import SettingsError, UnreachableError, shown
from genepool.layers import BatchNormRelu, Conv, Edge, Identity, Linear, round_half_up
from genepool.mutations import apply
from genepool.registry import nearest

DIGITS = 1e-9


def same_architecture(one: DNA, other: DNA) -> bool:
    """Return whether two DNAs, all of whose vertices lie on the backbone, have the same architecture."""
    these, those = _anonymous(one), _anonymous(other)
    return these.outline == those.outline and all(
        same_factor(a, b) for a, b in zip(these.factors, those.factors, strict=True)
    )


def same_factor(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=DIGITS)


class _Anonymous(NamedTuple):
    outline: tuple[object, ...]
    factors: list[float]
    """The channel factors of the convolutions, in the order of the outline."""


def _anonymous(dna: DNA) -> _Anonymous:
    """Number vertices by their position on the backbone."""
    place = {vertex: i for i, vertex in enumerate(dna.backbone_vertices)}
    if len(place) < len(dna.vertices):
        raise ValueError("only networks with all vertices on the backbone can be compared")
    activations = tuple(dna.vertex[name].type for name in place)
    leaks = tuple(vertex.leakiness for name in place if isinstance(vertex := dna.vertex[name], BatchNormRelu))
    edges = sorted(dna.edges, key=lambda edge: (place[edge.to_vertex], place[edge.from_vertex]))
    lines = tuple((place[edge.from_vertex], place[edge.to_vertex], _kind(dna, edge)) for edge in edges)
    return _Anonymous((activations, leaks, lines), [edge.depth_factor for edge in edges if isinstance(edge, Conv)])


def _kind(dna: DNA, edge: Edge) -> tuple[object, ...]:
    decides = (edge == dna.depth_primary(edge.to_vertex), edge == dna.scale_primary(edge.to_vertex))
    if isinstance(edge, Conv):
        return ("conv", edge.filter_width, edge.filter_height, edge.stride, *decides)
    return (edge.type, *decides)


def obstacle(dna: DNA) -> str | None:
    """Return why the eleven mutations cannot make this architecture, or None if they can. They insert and remove
    backbone edges before the initial edge, which stays the last, and connect vertices.
    """
    for end, name in (("input", dna.input), ("output", dna.output)):
        if not isinstance(dna.vertex[name], Linear):
            return f"its {end} '{name}' has batch normalisation, and no mutation changes the {end}."
    for layer in (*dna.vertices, *dna.edges):
        if not isinstance(layer, BatchNormRelu | Linear | Conv | Identity):
            return f"its layer '{layer.id}' is of the kind '{layer.type}', which the paper's mutations do not know."
    column = set(dna.backbone_vertices)
    for vertex in dna.vertices:
        if vertex.id not in column:
            return (
                f"its vertex '{vertex.id}' lies off the backbone, and mutations insert vertices into the backbone only."
            )
        if isinstance(vertex, BatchNormRelu) and vertex.leakiness:
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


T = TypeVar("T")
GRAINS = 2**53  # `Random.random` returns multiples of 1 / GRAINS


class RecordedDraws(Random):
    """A generator that plays recorded raw numbers back."""

    def __init__(self, numbers: Iterable[float]) -> None:
        super().__init__(0)
        self._numbers = list(reversed(list(numbers)))

    def random(self) -> float:
        """Return the next number, which must be one that a generator could give."""
        number = float(self._numbers.pop())
        if not 0 <= number < 1 or number * GRAINS != int(number * GRAINS):
            raise ValueError(f"no generator gives {number}")
        return number

    def getrandbits(self, k: int, /) -> int:
        """Return the next number, which must have at most k bits."""
        number = self._numbers.pop()
        if not isinstance(number, int) or not 0 <= number < 2**k:
            raise ValueError(f"{number} does not have {k} bits")
        return number

    @property
    def left(self) -> int:
        return len(self._numbers)


class ChosenDraws(Random):
    """A generator whose draws are given, as far as a real one could make them. A draw is the ID or value to choose, the
    number to approximate, the item to shuffle to the front, or raw bits.
    """

    def __init__(self, draws: Iterable[Any]) -> None:
        super().__init__(0)
        self._draws = list(reversed(list(draws)))
        self.numbers: list[float] = []
        """The raw numbers that a real generator would have to give."""

    def random(self) -> float:
        self.numbers.append(self._draws.pop())
        return self.numbers[-1]

    def getrandbits(self, k: int, /) -> int:
        return int(self.random())

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        index = [getattr(item, "id", item) for item in seq].index(self._draws.pop())
        self.numbers.append(index)
        return seq[index]

    def uniform(self, a: float, b: float) -> float:
        """Return the number nearest to the given one that can be drawn between the two."""
        fraction = (self._draws.pop() - a) / (b - a)
        grain = min(GRAINS - 1, max(0, round(fraction * GRAINS)))
        self.numbers.append(grain / GRAINS)
        return a + (b - a) * self.numbers[-1]

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Move one item to the front and leave the others, by the standard library's Fisher-Yates shuffle."""
        front = self._draws.pop()
        for i in reversed(range(1, len(x))):
            j = 0 if x[i] == front else i
            self.numbers.append(j)
            x[i], x[j] = x[j], x[i]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One mutation. The keys of its JSON form are documented."""

    mutation: str
    what: str
    numbers: tuple[int | float, ...]
    """The raw numbers that it draws: floats from `random()`, integers from `getrandbits()`."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from the initial DNA to an architecture, and the DNA that they lead to."""

    steps: tuple[Step, ...]
    dna: DNA


def reach(goal: DNA) -> Route:
    """Find a route to the architecture of a DNA and verify it with the mutations themselves. The backbone is built from
    the input on, then the skips. UnreachableError gives the reason if there is no route.
    """
    if (reason := obstacle(goal)) is not None:
        raise UnreachableError(f"The paper's mutations cannot reach this architecture: {reason}")
    builder = _Builder()
    vertices = {goal.input: builder.dna.input, goal.output: builder.dna.output}
    for edge in goal.backbone[:-1]:
        active = isinstance(goal.vertex[edge.to_vertex], BatchNormRelu)
        vertices[edge.to_vertex] = builder.convolution(edge, active) if isinstance(edge, Conv) else builder.one(active)
    for skip in goal.skips:
        builder.skip(vertices[skip.from_vertex], vertices[skip.to_vertex])
    route = Route(steps=tuple(builder.steps), dna=follow(builder.steps))
    if not same_architecture(route.dna, goal):
        raise AssertionError("the mutations found lead elsewhere")
    return route


def follow(steps: Iterable[Step], start: DNA | None = None) -> DNA:
    """Apply the steps, each with its recorded numbers, and return the resulting DNA."""
    dna = initial() if start is None else start
    for step in steps:
        draws = RecordedDraws(step.numbers)
        dna = apply(step.mutation, dna, draws)
        if draws.left:
            raise ValueError(f"{step.mutation} left {draws.left} numbers unused")
    return dna


class _Builder:
    """Appends to the backbone, before the initial edge."""

    def __init__(self) -> None:
        self.dna = initial()
        self.steps: list[Step] = []
        self._trunk = self.dna.backbone[-1].id
        self._names = count(1)

    def _do(self, mutation: str, what: str, *draws: Any) -> set[str]:
        """Apply a mutation with the given draws and return the new IDs."""
        rng, before = ChosenDraws(draws), self.dna
        self.dna = apply(mutation, before, rng)
        self.steps.append(Step(mutation=mutation, what=what, numbers=tuple(rng.numbers)))
        return {thing.id for thing in (*self.dna.vertices, *self.dna.edges)} - {*before.vertex, *before.edge}

    def _insert(self, mutation: str, what: str, active: bool, *more: Any) -> tuple[str, str]:
        """Insert an edge and a vertex before the end and return their IDs."""
        kind, vertex, edge = 0.25 if active else 0.75, next(self._names), next(self._names)
        new = self._do(mutation, f"{what}{' +BN+R' if active else ''}", kind, self._trunk, vertex, *more, edge)
        [edge_id] = new & self.dna.edge.keys()
        [vertex_id] = new & self.dna.vertex.keys()
        return edge_id, vertex_id

    def one(self, active: bool) -> str:
        """Insert a one-to-one connection and return the ID of the vertex after it."""
        return self._insert("insert-one-to-one", "at the end", active)[1]

    def convolution(self, like: Conv, active: bool) -> str:
        """Insert a convolution like the given one and return the ID of the vertex after it."""
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
            nearer = min(max(factor, now / 2), now * 2)
            self._do("alter-number-of-channels", f"{nearer:.6g} times the input channels", name, nearer)

    def _set_filter(self, name: str, like: Conv) -> None:
        for side, first in (("width", 0.25), ("height", 0.75)):
            wanted = getattr(like, f"filter_{side}")
            while getattr(conv := self._conv(name), f"filter_{side}") != wanted:
                now = 2 * getattr(conv, f"filter_half_{side}") + 1
                nearer = min(max(wanted, now / 2), now * 2)
                self._do("filter-size", f"{side} {wanted}, from {now:.4g} to {nearer:.4g}", name, first, nearer)

    def _set_stride(self, name: str, like: Conv) -> None:
        while (now := self._conv(name)).stride != like.stride:
            change = min(1.0, round_half_up(like.stride_scale) - now.stride_scale)
            self._do("alter-stride", f"{now.stride} towards {like.stride}", name, change)

    def skip(self, source: str, target: str) -> None:
        """Connect two vertices of the backbone."""
        place = {vertex: i for i, vertex in enumerate(self.dna.backbone_vertices)}
        what = f"from vertex {place[source]} to vertex {place[target]} of the backbone"
        self._do("add-skip", what, source, target, next(self._names))


class Target(NamedTuple):
    dna: DNA
    note: str | None = None
    """How it differs from the network of that name in the zoo."""


def target(name: str, image_channels: int = 3) -> Target:
    """Return the network of that name or in that file. UnreachableError gives the reason of Table 1's "No"."""
    known = PUBLISHED.get(name)
    if known is not None and known.obstacle is not None:
        raise UnreachableError(f"The paper's mutations cannot reach {known.text}")
    if name == "wrn-28-10":
        return Target(wide_resnet(28, 10, image_channels, projections=False), PUBLISHED[name].differences[0])
    if name in ZOO:
        return Target(ZOO[name](image_channels))
    if name.endswith(".json") or os.path.exists(name):  # noqa: PTH110 - which never raises
        return Target(codec.read(Path(name)))
    names = list(dict.fromkeys((*ZOO, *PUBLISHED)))
    raise SettingsError(f"'{shown(name)}' is neither a file nor a known network; {nearest(name, names)}")
