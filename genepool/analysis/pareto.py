"""The Pareto front: of all that ever lived, those that nobody beats in accuracy and cost at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from genepool.analysis.history import Row


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One individual of the front; the keys of its JSON form are documented and stay."""

    id: str
    accuracy: float
    """On the validation images."""
    parameters: int
    flops: int
    """Of one image, forward."""
    milliseconds: float | None
    """Of the inference of one image; None where it was not measured."""
    network: str
    state: str
    weights: bool
    """Whether its trained weights are still there."""


class _Candidate(NamedTuple):
    row: Row
    accuracy: float
    costs: tuple[float, ...]
    milliseconds: float | None


def front(rows: Iterable[Row], batch: int, has_weights: Callable[[Row], bool]) -> list[Point]:
    """The front of these individuals, which stand in the order of their birth; the most accurate first.

    Costs are parameters and FLOPs of an image, and milliseconds where they were measured for all: a network cannot win
    because nobody looked. Of several that are equal in everything the first counts, or the first with weights.
    """
    candidates = [_candidate(row, batch) for row in rows if row.result is not None and row.evaluation.reason is None]
    if candidates and all(one.milliseconds is not None for one in candidates):
        candidates = [one._replace(costs=(*one.costs, one.milliseconds or 0.0)) for one in candidates]
    return [_point(*_kept(equals, has_weights)) for equals in _undominated(candidates)]


def _undominated(candidates: list[_Candidate]) -> list[list[_Candidate]]:
    """Groups of equals. By falling accuracy, then rising costs: whoever dominates another comes before it."""
    groups: list[list[_Candidate]] = []
    for one in sorted(candidates, key=lambda one: (-one.accuracy, one.costs)):
        if groups and (one.accuracy, one.costs) == (groups[-1][0].accuracy, groups[-1][0].costs):
            groups[-1].append(one)
        elif not any(_no_dearer(group[0].costs, one.costs) for group in groups):
            groups.append([one])
    return groups


def _no_dearer(these: tuple[float, ...], those: tuple[float, ...]) -> bool:
    return all(this <= that for this, that in zip(these, those, strict=True))


def _candidate(row: Row, batch: int) -> _Candidate:
    told = row.evaluation
    # Records of other evaluators may have only the cost of a batch.
    flops = told.flops_image or round(told.flops_forward / batch)
    return _Candidate(row, row.accuracy or 0.0, (told.parameters, flops), told.milliseconds)


def _kept(equals: list[_Candidate], has_weights: Callable[[Row], bool]) -> tuple[_Candidate, bool]:
    return next(((one, True) for one in equals if has_weights(one.row)), (equals[0], False))


def _point(one: _Candidate, weights: bool) -> Point:
    return Point(
        id=one.row.id,
        accuracy=one.accuracy,
        parameters=int(one.costs[0]),
        flops=int(one.costs[1]),
        milliseconds=one.milliseconds,
        network=one.row.dna.in_a_line(),
        state=one.row.state.name.lower(),
        weights=weights,
    )
