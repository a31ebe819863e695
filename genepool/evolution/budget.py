"""When an experiment is over. All limits are totals of the experiment, whoever worked on it and however often."""

from __future__ import annotations

import msgspec

from genepool.evolution.training_budget import Phase


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment has used and reached so far."""

    seconds: float = 0.0
    """During which at least one individual was in training, as far as finished individuals tell."""
    individuals: int = 0
    """That became alive."""
    flops: int = 0
    best: float = 0.0
    """The highest fitness."""
    since_best: int = 0
    """Individuals that became alive after the one that set it."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits; 0 means none."""

    time: float = 0.0
    """Seconds."""
    individuals: int = 0
    flops: float = 0.0
    target: float = 0.0
    """A fitness to reach."""
    plateau: int = 0
    """Individuals in a row without a new best."""

    @property
    def limits_anything(self) -> bool:
        return any((self.time, self.individuals, self.flops, self.target, self.plateau))

    def phase(self, so_far: Spending) -> Phase:
        """Where this leaves the experiment, by the limit that is nearest; only time and FLOPs can be shared out."""
        by_time = Phase(used=so_far.seconds, total=self.time)
        by_flops = Phase(used=so_far.flops, total=self.flops, unit="flops")
        return max((by_time, by_flops), key=lambda phase: (phase.spent, phase.total))

    def over(self, spent: Spending) -> str | None:
        """Why the experiment is over, or None."""
        if self.time and spent.seconds >= self.time:
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
