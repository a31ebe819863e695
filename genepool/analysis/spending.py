"""What an experiment has spent and reached, added up over all who ever lived in it."""

from __future__ import annotations

from collections.abc import Iterable

from genepool.analysis.history import Row
from genepool.evolution.budget import Spending

Interval = tuple[float, float]


def spending(finished: Iterable[Row], *, also: Interval | None = None) -> Spending:
    """From the finished individuals in order, and the time of a run that goes on (wall clock)."""
    flops, best, count, record_at = 0, 0.0, 0, 0
    intervals = [also] if also else []
    for row in finished:
        assert row.result is not None
        count += 1
        flops += int(row.result.metrics.get("flops", 0))
        if row.result.fitness > best:
            best, record_at = row.result.fitness, count
        intervals.append((row.result.finished - float(row.result.metrics.get("seconds", 0.0)), row.result.finished))
    return Spending(seconds=union(intervals), individuals=count, flops=flops, best=best, since_best=count - record_at)


def union(intervals: Iterable[Interval]) -> float:
    """How long at least one of the intervals lasted."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
