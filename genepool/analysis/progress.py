"""The progress of an experiment for figures: all individuals, four networks on the way, and changes of settings."""

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from genepool.analysis.history import History, Row, ancestors
from genepool.dna import DNA
from genepool.evolution import Escape, Spending
from genepool.population import State

MOST_BOXES = 14  # in longer diagrams, equal boxes in a row become one


class Dot(NamedTuple):
    """One individual that became alive."""

    id: str
    parent: str  # empty if there is none, or none that is known
    seconds: float  # the training time of the experiment until then
    flops: int  # the FLOPs of all that had become alive by then
    fitness: float
    alive: bool


class Box(NamedTuple):
    text: str
    kind: str  # end, linear, once or often: how many nonlinearities follow the convolution


class Diagram(NamedTuple):
    """A network as the paper draws it, from top to bottom; skips join boxes by their places."""

    id: str
    accuracy: float  # the validation accuracy
    boxes: tuple[Box, ...]
    skips: tuple[tuple[int, int], ...]
    test: float | None = None  # the test accuracy; None if it was not measured


def dots(history: History) -> list[Dot]:
    """All individuals that became alive, in that order."""
    progress, ids = history.table.progress(), history.table.ids
    columns = (progress.rows, progress.elapsed.tolist(), progress.spent.tolist(), progress.fitness.tolist())
    found = []
    for number, seconds, flops, fitness in zip(*columns, strict=True):
        if (row := history.rows.get(ids[number])) is not None:
            parent = next((name for name in row.birth.parents if name in history.rows), "")
            found.append(Dot(row.id, parent, seconds, int(flops), fitness, row.state is State.ALIVE))
    return found


def four_ancestors(rows: Mapping[str, Row], identity: str, tested: Mapping[str, float]) -> list[Diagram]:
    """The individual and up to three ancestors: the first, and two between, if possible `tested` (accuracies by ID)."""
    line = [row for row in ancestors(rows, identity) if row.result is not None]
    shown = [line[0], *_between(line, tested), line[-1]] if len(line) > 1 else line
    chosen = [shown[place] for place in sorted({round(i * (len(shown) - 1) / 3) for i in range(4)})] if shown else []
    return [diagram(row.id, row.accuracy or 0.0, row.dna)._replace(test=tested.get(row.id)) for row in chosen]


def _between(line: Sequence[Row], tested: Mapping[str, float]) -> Sequence[Row]:
    """The ancestors to choose from: tested networks, new networks, or all, whichever are at least two."""
    networks = [row.dna.in_a_line() for row in line]
    ends = (networks[0], networks[-1])
    new: list[Row] = []
    known: dict[str, Row] = {}
    for row, own, former in zip(line[1:-1], networks[1:], networks, strict=False):
        if own not in (*ends, former):
            new.append(row)
        if own not in ends and row.id in tested:
            known.setdefault(own, row)
    return next((rows for rows in (list(known.values()), new) if len(rows) >= 2), line[1:-1])


def diagram(identity: str, accuracy: float, dna: DNA) -> Diagram:
    """The backbone as boxes; an identity adds its nonlinearity to the box before."""
    texts, place = ["Input"], {dna.input: 0}
    for edge in dna.backbone:
        symbol, active = edge.symbol, dna.vertex[edge.to_vertex].symbol
        if symbol:
            texts.append(f"{symbol}+{active}" if active else symbol)
        elif active and len(texts) == 1:
            texts.append(active)
        elif active:
            texts[-1] += f"+{active}"
        place[edge.to_vertex] = len(texts) - 1
    texts += ["Global Pool", "Output"]
    skips = {(place[edge.from_vertex], place[edge.to_vertex]) for edge in dna.skips}
    boxes = tuple(Box(text, _kind(text)) for text in texts)
    return _shortened(Diagram(identity, accuracy, boxes, tuple(sorted(skips))))


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

    time: float  # wall clock time
    label: str


class Change(NamedTuple):
    """A version of the settings when it came into force; a version that was no intervention has no label."""

    when: float
    label: str
    escape: Escape
    mutations: int  # the number per reproduction outside of an escape


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


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One individual of the front; the keys of its JSON form are documented."""

    id: str
    accuracy: float  # the accuracy on the validation images
    parameters: int
    flops: int  # FLOPs of one forward pass of one image
    milliseconds: float | None  # the inference time of one image; None if it was not measured
    network: str
    state: str
    weights: bool  # whether its trained weights still exist


class _Candidate(NamedTuple):
    row: Row
    accuracy: float
    needs: tuple[float, ...]
    milliseconds: float | None


def front(rows: Iterable[Row], batch: int, has_weights: Callable[[Row], bool]) -> list[Point]:
    """The front of these individuals, which are in the order of their birth; the most accurate first. Milliseconds
    count only if they were measured for all: a network must not win because it was not measured. Of several that are
    equal in everything the first counts, or the first with weights.
    """
    candidates = [_candidate(row, batch) for row in rows if row.result is not None and row.evaluation.reason is None]
    if candidates and all(one.milliseconds is not None for one in candidates):
        candidates = [one._replace(needs=(*one.needs, one.milliseconds or 0.0)) for one in candidates]
    return [_point(*_kept(equals, has_weights)) for equals in _undominated(candidates)]


def _undominated(candidates: list[_Candidate]) -> list[list[_Candidate]]:
    """Groups of equals; sorted so that an individual that dominates another comes before it."""
    groups: list[list[_Candidate]] = []
    for one in sorted(candidates, key=lambda one: (-one.accuracy, one.needs)):
        if groups and (one.accuracy, one.needs) == (groups[-1][0].accuracy, groups[-1][0].needs):
            groups[-1].append(one)
        elif not any(all(map(operator.le, group[0].needs, one.needs)) for group in groups):
            groups.append([one])
    return groups


def _candidate(row: Row, batch: int) -> _Candidate:
    known = row.evaluation
    flops = known.flops_image or round(known.flops_forward / batch)  # other evaluators may record only a batch's
    return _Candidate(row, row.accuracy or 0.0, (known.parameters, flops), known.milliseconds)


def _kept(equals: list[_Candidate], has_weights: Callable[[Row], bool]) -> tuple[_Candidate, bool]:
    return next(((one, True) for one in equals if has_weights(one.row)), (equals[0], False))


def _point(one: _Candidate, weights: bool) -> Point:
    return Point(
        id=one.row.id, accuracy=one.accuracy, parameters=int(one.needs[0]), flops=int(one.needs[1]),
        milliseconds=one.milliseconds, network=one.row.dna.in_a_line(), state=one.row.state.name.lower(),
        weights=weights,
    )  # fmt: skip
