"""What an experiment has spent and reached, added up over all who ever lived in it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import NamedTuple

from genepool.errors import ConcurrencyError, DataError, StorageError
from genepool.evolution.budget import Spending
from genepool.population import DirectoryView, Result, State

Interval = tuple[float, float]


class Entry(NamedTuple):
    """What one finished individual cost and reached; entries sort by the time at which it became alive."""

    finished: float
    seconds: float
    flops: int
    fitness: float

    @classmethod
    def of(cls, result: Result) -> Entry:
        seconds, flops = result.metrics.get("seconds", 0.0), result.metrics.get("flops", 0)
        return cls(result.finished, float(seconds), int(flops), result.fitness)


class Stopwatch:
    """The time of a run that goes on: begins by the clock on the wall, but is as long as it really was.

    A clock that is put forward by an hour must not end an experiment of ten minutes.
    """

    def __init__(self) -> None:
        self._started, self._since = time.time(), time.monotonic()

    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._since

    def interval(self) -> Interval:
        """From when to when."""
        return self._started, self._started + self.seconds()


def spending(entries: Iterable[Entry], *, also: Interval | None = None) -> Spending:
    """From the finished individuals, and the time of a run that goes on (wall clock)."""
    ordered = sorted(entries)
    flops, count, record_at = 0, 0, 0
    best = min((0.0, *(entry.fitness for entry in ordered)))
    intervals = [also] if also else []
    for entry in ordered:
        count += 1
        flops += entry.flops
        if entry.fitness > best:
            best, record_at = entry.fitness, count
        intervals.append((entry.finished - entry.seconds, entry.finished))
    return Spending(seconds=union(intervals), individuals=count, flops=flops, best=best, since_best=count - record_at)


def union(intervals: Iterable[Interval]) -> float:
    """How long at least one of the intervals lasted."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


class Ledger:
    """The entries of an experiment, kept up to date by looking again: all that a worker must know of the others."""

    def __init__(self, view: DirectoryView) -> None:
        self._view = view
        self._fossils = view.fossil_tail()
        self.entries: dict[str, Entry] = {}

    def refresh(self) -> None:
        """Adds whoever became alive since the last look."""
        for individual in self._view.snapshot():
            if individual.state in (State.ALIVE, State.DEAD) and individual.id not in self.entries:
                # Whoever goes while being read is met again at the next look, as a fossil.
                with contextlib.suppress(ConcurrencyError, DataError, StorageError):
                    self.entries[individual.id] = Entry.of(self._view.read_result(individual))
        for fossil, _ in self._fossils.more():
            if fossil.result is not None:
                self.entries[fossil.id] = Entry.of(fossil.result)
