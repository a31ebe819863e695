"""What share of an individual's time is not training: everything but its steps 2 to n."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from genepool.population import Result

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
