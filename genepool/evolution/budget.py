"""When an experiment is over. All limits are totals of the experiment, across all workers and all runs."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

FIRST = 60.0
"""Seconds by which the first individual may exceed the time: any trained network is better than none."""


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment has used and reached so far."""

    seconds: float = 0.0
    """Time during which at least one individual was in training, according to the finished individuals."""
    individuals: int = 0
    """Individuals that became alive."""
    flops: int = 0
    """FLOPs of all individuals ever created, as far as they were executed."""
    flops_lost: int = 0
    """Those of them in trainings that failed, were cut off or had to be repeated."""
    best: float = 0.0
    """The highest fitness."""
    since_best: int = 0
    """Individuals that became alive after the one with the highest fitness."""


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    used: float = 0.0
    total: float = 0.0  # the complete budget; 0 if there is none
    unit: Literal["seconds", "flops"] = "seconds"

    @property
    def fraction(self) -> float:
        return min(1.0, self.used / self.total) if self.total else 0.0

    @property
    def left(self) -> float:
        return max(0.0, self.total - self.used)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """When the experiment ends: as soon as one of these limits is reached. None: no limit."""

    time: Annotated[float, Meta(gt=0, le=1e10)] | None = None
    """Seconds."""
    individuals: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Individuals trained."""
    flops: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    """FLOPs spent on all individuals together, including trainings that failed or were repeated."""
    target: Annotated[float, Meta(gt=0, le=1)] | None = None
    """A fitness to reach."""
    plateau: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Individuals in a row without a new best."""

    @property
    def limits_anything(self) -> bool:
        return any((self.time, self.individuals, self.flops, self.target, self.plateau))

    def use(self, spent: Spending) -> BudgetUse:
        """Return the use of the limit that is nearest; only time and FLOPs can be divided among trainings."""
        by_time = BudgetUse(used=spent.seconds, total=self.time or 0.0)
        by_flops = BudgetUse(used=spent.flops, total=self.flops or 0.0, unit="flops")
        return max((by_time, by_flops), key=lambda use: (use.fraction, use.total))

    def share(self, spent: Spending) -> float:
        """Return the share of the budget that is spent, by the limit on time, FLOPs or individuals that is nearest."""
        counted = min(1.0, spent.individuals / self.individuals) if self.individuals else 0.0
        return max(self.use(spent).fraction, counted)

    def over(self, spent: Spending) -> str | None:
        if self.time and spent.seconds >= self.time + (0.0 if spent.individuals else FIRST):
            return f"the time of {self.time:g} s is over"
        if self.individuals and spent.individuals >= self.individuals:
            return f"{self.individuals} individuals have been trained"
        if self.flops and spent.flops >= self.flops:
            return f"{self.flops:.3g} FLOPs have been spent"
        if self.target and spent.best >= self.target:
            return f"the fitness of {self.target:g} has been reached"
        if self.plateau and spent.since_best >= self.plateau:
            return f"{self.plateau} individuals in a row brought nothing better"
        return None
