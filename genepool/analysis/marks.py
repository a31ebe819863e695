"""What was done to a population while it evolved, on the clock: for the margin of a figure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from genepool.analysis.spending import Entry, spending
from genepool.evolution.interventions import Escape
from genepool.population import Result


class Mark(NamedTuple):
    """Something that happened."""

    time: float
    """On the wall clock."""
    label: str


class Change(NamedTuple):
    """A version of the settings as it came into force; those that were no interventions have no label."""

    when: float
    label: str
    escape: Escape
    mutations: int
    """When no escape lasts."""


def marks(changes: Sequence[Change], results: Sequence[Result]) -> list[Mark]:
    """The interventions, and the ends of those that ended by themselves, in order."""
    found = [Mark(change.when, change.label) for change in changes if change.label]
    phases = [change for change in changes if "mutations" in change.label]
    for number, phase in enumerate(phases, start=1):
        end = _end(phase.escape, results)
        if end is not None and all(end < following.when for following in phases[number:]):
            found.append(Mark(end, f"{phase.mutations} mutation{'s' if phase.mutations > 1 else ''} again"))
    return sorted(found)


def _end(escape: Escape, results: Sequence[Result]) -> float | None:
    """When the individual became alive with which the phase was over."""
    entries = sorted(Entry.of(result) for result in results)
    needed = bisect_left(range(len(entries) + 1), True, key=lambda n: not escape.lasts(spending(entries[:n])))
    return entries[needed - 1].finished if 0 < needed <= len(entries) else None
