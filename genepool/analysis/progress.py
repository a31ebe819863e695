"""The progress of an experiment for figures: all individuals, four networks on the way, and changes of settings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from genepool.analysis.history import History
from genepool.analysis.lineage import ancestors
from genepool.dna import DNA, Conv
from genepool.evolution import Escape, Spending
from genepool.population import State

MOST_BOXES = 14
"""In longer diagrams, equal boxes in a row become one."""


class Dot(NamedTuple):
    """One individual that became alive."""

    id: str
    parent: str
    """Empty if there is none, or none that is known."""
    seconds: float
    """The training time of the experiment until then."""
    flops: int
    """The FLOPs of all that had become alive by then."""
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
    """All individuals that became alive, in that order."""
    progress, ids = history.table.progress(), history.table.ids
    columns = (progress.rows, progress.elapsed.tolist(), progress.spent.tolist(), progress.fitness.tolist())
    found = []
    for number, seconds, flops, fitness in zip(*columns, strict=True):
        row = history.rows.get(ids[number])
        if row is not None:
            parent = next((name for name in row.birth.parents if name in history.rows), "")
            found.append(Dot(row.id, parent, seconds, int(flops), fitness, row.state is State.ALIVE))
    return found


def four_ancestors(history: History, identity: str) -> list[Diagram]:
    """The individual and up to three of its ancestors: the first one, and two evenly between."""
    line = [row for row in ancestors(history.rows, identity) if row.result is not None]
    different = [row for i, row in enumerate(line) if i == 0 or row.dna.in_a_line() != line[i - 1].dna.in_a_line()]
    different = [*different[:-1], line[-1]] if len(different) >= 4 else line
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


def _shortened(full: Diagram) -> Diagram:
    boxes: list[tuple[Box, int]] = []
    new_place = []
    for box in full.boxes:
        if len(full.boxes) > MOST_BOXES and boxes and boxes[-1][0] == box:
            boxes[-1] = (box, boxes[-1][1] + 1)
        else:
            boxes.append((box, 1))
        new_place.append(len(boxes) - 1)
    skips = {(new_place[a], new_place[b]) for a, b in full.skips}
    return full._replace(
        boxes=tuple(box if count == 1 else Box(f"{box.text}  x {count}", box.kind) for box, count in boxes),
        skips=tuple(sorted((a, b) for a, b in skips if a != b)),
    )


class Annotation(NamedTuple):
    """A change of settings, for a figure."""

    time: float
    """Wall clock time."""
    label: str


class Change(NamedTuple):
    """A version of the settings when it came into force; a version that was no intervention has no label."""

    when: float
    label: str
    escape: Escape
    mutations: int
    """The number per reproduction outside of an escape."""


def figure_annotations(changes: Sequence[Change], history: History) -> list[Annotation]:
    """The interventions, and the ends of those that ended by themselves, in order."""
    found = [Annotation(change.when, change.label) for change in changes if change.label]
    phases = [change for change in changes if "mutations" in change.label]
    for number, phase in enumerate(phases, start=1):
        end = _end(phase.escape, history)
        if end is not None and all(end < following.when for following in phases[number:]):
            found.append(Annotation(end, f"{phase.mutations} mutation{'s' if phase.mutations > 1 else ''} again"))
    return sorted(found)


def _end(escape: Escape, history: History) -> float | None:
    """When the individual became alive with which the phase was over."""
    progress = history.table.progress()

    def is_over(count: int) -> bool:
        seconds = float(progress.elapsed[count - 1]) if count else 0.0
        return not escape.is_active(Spending(seconds=seconds, individuals=count))

    needed = bisect_left(range(len(progress.rows) + 1), True, key=is_over)
    return float(progress.finished[needed - 1]) if 0 < needed <= len(progress.rows) else None
