"""The Pareto front: the individuals that no other beats in accuracy and requirements at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from genepool.analysis.history import Row


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One individual of the front; the keys of its JSON form are documented."""

    id: str
    accuracy: float
    """The accuracy on the validation images."""
    parameters: int
    flops: int
    """FLOPs of one forward pass of one image."""
    milliseconds: float | None
    """The inference time of one image; None if it was not measured."""
    network: str
    state: str
    weights: bool
    """Whether its trained weights still exist."""


class _Candidate(NamedTuple):
    row: Row
    accuracy: float
    needs: tuple[float, ...]
    milliseconds: float | None


def front(rows: Iterable[Row], batch: int, has_weights: Callable[[Row], bool]) -> list[Point]:
    """The front of these individuals, which are in the order of their birth; the most accurate first.

    The requirements are parameters and FLOPs per image, and milliseconds if they were measured for all: a network must
    not win because it was not measured. Of several that are equal in everything the first counts, or the first with
    weights.
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
        elif not any(_needs_no_more(group[0].needs, one.needs) for group in groups):
            groups.append([one])
    return groups


def _needs_no_more(these: tuple[float, ...], those: tuple[float, ...]) -> bool:
    return all(this <= that for this, that in zip(these, those, strict=True))


def _candidate(row: Row, batch: int) -> _Candidate:
    known = row.evaluation
    # Records of other evaluators may have only the FLOPs of a batch.
    flops = known.flops_image or round(known.flops_forward / batch)
    return _Candidate(row, row.accuracy or 0.0, (known.parameters, flops), known.milliseconds)


def _kept(equals: list[_Candidate], has_weights: Callable[[Row], bool]) -> tuple[_Candidate, bool]:
    return next(((one, True) for one in equals if has_weights(one.row)), (equals[0], False))


def _point(one: _Candidate, weights: bool) -> Point:
    return Point(
        id=one.row.id,
        accuracy=one.accuracy,
        parameters=int(one.needs[0]),
        flops=int(one.needs[1]),
        milliseconds=one.milliseconds,
        network=one.row.dna.in_a_line(),
        state=one.row.state.name.lower(),
        weights=weights,
    )
