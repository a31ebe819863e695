"""What an experiment has spent and reached, and which share of an individual's time is not training.

What an experiment has spent and reached, added up over all who ever lived in it.

What share of an individual's time is not training: everything but its steps 2 to n.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

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


RECENT = 300.0
"""Seconds; whoever finished nothing for longer is not shown as at work."""


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """Of some individuals, added up."""

    individuals: int = 0
    seconds: float = 0.0
    stepping: float = 0.0
    """Of these, in steps 2 to n."""

    @property
    def share(self) -> float:
        """Of the seconds; 0 where there were none."""
        return max(0.0, 1 - self.stepping / self.seconds) if self.seconds > 0 else 0.0

    def and_then(self, result: Result) -> Overhead:
        """With one more individual."""
        return Overhead(
            individuals=self.individuals + 1,
            seconds=self.seconds + float(result.metrics.get("seconds", 0.0)),
            stepping=self.stepping + float(result.metrics.get("stepping", 0.0)),
        )


def overhead(results: Iterable[Result]) -> Overhead:
    """Of all of them together."""
    total = Overhead()
    for result in results:
        total = total.and_then(result)
    return total


def overhead_by_worker(results: Iterable[Result]) -> dict[str, Overhead]:
    """By the worker that finished the training, in the order of their names."""
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        _, _, who = result.attempt.partition("-")
        found[who].append(result)
    return {who: overhead(found[who]) for who in sorted(found)}
