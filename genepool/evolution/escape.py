"""Escaping local optima during a run (the paper's "Escaping local optima"): the alarm, more mutations, reset weights.

An intervention is a new version of the settings, which also contains the end of the escape in totals of the experiment.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from genepool.errors import SettingsError
from genepool.evolution.budget import Spending


class Escape(msgspec.Struct, frozen=True, kw_only=True):
    """When a population counts as trapped, and the period of more mutations that may free it."""

    alarm: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Individuals in a row without a new best after which an alarm is shown; none: no alarm."""
    auto: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Differs from the paper if given: the alarm also starts an escape of this many individuals."""
    mutations: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Mutations per reproduction during an escape."""
    individuals: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """The escape ends when this many individuals have been trained in total; set by `genepool intervene`."""
    time: Annotated[float, Meta(gt=0, le=1e11)] | None = None
    """The escape ends when the experiment has taken this many seconds in total; set by `genepool intervene`."""
    quiet_until: Annotated[int, Meta(ge=0, le=10**12)] = 0
    """The alarm is silent until this many individuals have been trained in total; set by `genepool intervene`."""
    reset_version: Annotated[int, Meta(ge=0, le=10**6)] = 0
    """Individuals born under older versions of the settings pass on no weights and are trained again from fresh ones;
    set by `genepool intervene --reset-weights`."""

    @property
    def depends_on_spending(self) -> bool:
        return bool(self.alarm or self.individuals or self.time)

    def is_active(self, spent: Spending) -> bool:
        by_count = not self.individuals or spent.individuals < self.individuals
        by_time = not self.time or spent.seconds < self.time
        return bool(self.individuals or self.time) and by_count and by_time

    def raises_alarm(self, spent: Spending) -> bool:
        waited = min(spent.since_best, spent.individuals - self.quiet_until)
        return self.alarm is not None and waited >= self.alarm and not self.is_active(spent)

    def is_due(self, spent: Spending) -> bool:
        """Whether an escape should begin by itself. Differs from the paper, where people began it."""
        return bool(self.auto) and self.raises_alarm(spent)

    def message(self, spent: Spending) -> str:
        if self.is_active(spent):
            counts = [f"{self.individuals} individuals"] if self.individuals else []
            times = [f"{self.time:.0f} s"] if self.time else []
            return f"{self.mutations} mutations per reproduction until {' or '.join(counts + times)} in total"
        if self.raises_alarm(spent):
            return f"ALARM: {spent.since_best} individuals without a new best"
        return ""


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """What the user does about a trapped population."""

    mutations: int = 0  # mutations per reproduction during the escape; 0: as before
    individuals: int = 0  # how many individuals the escape lasts
    seconds: float = 0.0  # how long the escape lasts, if not counted in individuals
    reset_weights: bool = False
    population: int = 0  # new size of the population; 0: as before

    def __post_init__(self) -> None:
        if not (self.mutations or self.reset_weights or self.population):
            raise SettingsError("No intervention given; use --mutations with --for, --reset-weights or --population.")
        if bool(self.mutations) != bool(self.individuals or self.seconds):
            raise SettingsError("More mutations need an end; give both --mutations 5 and --for 500, or --for 10m.")

    @property
    def label(self) -> str:
        parts = [f"{self.mutations} mutations"] if self.mutations else []
        parts += ["weights reset"] if self.reset_weights else []
        return ", ".join(parts + ([f"population {self.population}"] if self.population else []))

    def changes(self, spent: Spending, version: int) -> dict[str, Any]:
        """Return the settings that change, by name, given the spending so far and the version that they will have."""
        changes: dict[str, Any] = {"escape.quiet_until": spent.individuals + self.individuals}
        if self.mutations:
            changes["escape.mutations"] = self.mutations
            changes["escape.individuals"] = spent.individuals + self.individuals if self.individuals else None
            changes["escape.time"] = spent.seconds + self.seconds if self.seconds else None
        if self.reset_weights:
            changes["escape.reset_version"] = version
        if self.population:
            changes["population.size"] = self.population
        return changes
