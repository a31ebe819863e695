"""The course of an experiment as plain rows: who became alive when, and what four networks on the way looked like."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from genepool.analysis.history import History, Row
from genepool.analysis.spending import Entry, Interval
from genepool.dna import DNA, Conv
from genepool.population import State

MOST_BOXES = 14
"""In a diagram; in longer ones equal boxes in a row become one."""


class Dot(NamedTuple):
    """One individual that became alive."""

    id: str
    parent: str
    """Empty for one from nothing, and where the parent is not known."""
    seconds: float
    """Of training by anybody, before it became alive."""
    flops: int
    """Of all that had become alive by then."""
    fitness: float
    alive: bool


class Box(NamedTuple):
    """One box of a diagram."""

    text: str
    kind: str
    """end, linear, once or often: how many nonlinearities follow the convolution."""


class Diagram(NamedTuple):
    """A network as the paper draws it, from top to bottom; skips join boxes by their places."""

    id: str
    fitness: float
    boxes: tuple[Box, ...]
    skips: tuple[tuple[int, int], ...]


def dots(history: History) -> list[Dot]:
    """In the order in which they became alive."""
    finished = history.finished()
    elapsed = _clock([Entry.of(row.result) for row in finished if row.result is not None])
    found, spent = [], 0
    for row in finished:
        spent += row.evaluation.flops
        parent = next((name for name in row.birth.parents if name in history.rows), "")
        when = elapsed(row.result.finished if row.result else 0.0)
        found.append(Dot(row.id, parent, when, spent, row.fitness or 0.0, row.state is State.ALIVE))
    return found


class _clock:  # noqa: N801 - a function with a memory
    """How long somebody had been training at a moment: pauses between two runs do not count."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        merged: list[Interval] = []
        for start, stop in sorted((entry.finished - entry.seconds, entry.finished) for entry in entries):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        self._merged, self._starts = merged, [start for start, _ in merged]
        self._before = [0.0]
        for start, stop in merged:
            self._before.append(self._before[-1] + stop - start)

    def __call__(self, moment: float) -> float:
        place = bisect_right(self._starts, moment) - 1
        if place < 0:
            return 0.0
        start, stop = self._merged[place]
        return self._before[place] + min(moment, stop) - start


def chain(history: History, identity: str) -> list[Row]:
    """An individual's ancestors, the first one first, and itself; of two parents the first is followed."""
    found: list[Row] = []
    row = history.rows.get(identity)
    while row is not None:
        found.append(row)
        row = history.rows.get(row.birth.parents[0]) if row.birth.parents else None
    return found[::-1]


def four_ancestors(history: History, identity: str) -> list[Diagram]:
    """The individual and up to three of its ancestors: the first one, and two evenly between."""
    whole = [row for row in chain(history, identity) if row.result is not None]
    different = [row for i, row in enumerate(whole) if i == 0 or row.dna.in_a_line() != whole[i - 1].dna.in_a_line()]
    different = [*different[:-1], whole[-1]] if len(different) >= 4 else whole
    last = len(different) - 1
    places = sorted({round(i * last / 3) for i in range(4)}) if different else []
    return [diagram(different[i].id, different[i].fitness or 0.0, different[i].dna) for i in places]


def diagram(identity: str, fitness: float, dna: DNA) -> Diagram:
    """The backbone as boxes; an identity adds its nonlinearity to the box before."""
    texts, place = ["Input"], {dna.input: 0}
    for edge in dna.backbone:
        active = "+BN+R" if dna.vertex[edge.to_vertex].type == "bn_relu" else ""
        if isinstance(edge, Conv):
            texts.append("C" + active)
        elif active and len(texts) == 1:
            texts.append(active[1:])
        else:
            texts[-1] += active
        place[edge.to_vertex] = len(texts) - 1
    texts += ["Global Pool", "Output"]
    skips = {(place[edge.from_vertex], place[edge.to_vertex]) for edge in dna.skips}
    return _shortened(Diagram(identity, fitness, tuple(Box(text, _kind(text)) for text in texts), tuple(sorted(skips))))


def _kind(text: str) -> str:
    if text in ("Input", "Global Pool", "Output"):
        return "end"
    return ("linear", "once")[text.count("BN")] if text.count("BN") < 2 else "often"


def _shortened(whole: Diagram) -> Diagram:
    boxes: list[tuple[Box, int]] = []
    new_place = []
    for box in whole.boxes:
        if len(whole.boxes) > MOST_BOXES and boxes and boxes[-1][0] == box:
            boxes[-1] = (box, boxes[-1][1] + 1)
        else:
            boxes.append((box, 1))
        new_place.append(len(boxes) - 1)
    skips = {(new_place[a], new_place[b]) for a, b in whole.skips}
    return whole._replace(
        boxes=tuple(box if count == 1 else Box(f"{box.text}  x {count}", box.kind) for box, count in boxes),
        skips=tuple(sorted((a, b) for a, b in skips if a != b)),
    )
