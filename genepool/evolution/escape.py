"""Escaping local optima while evolution runs: the alarm, the phase of more mutations, the reset of all weights.

Follows "Escaping local optima" and the supplement's section of that name. An intervention is a new version of the
settings that says until when it lasts, in totals of the experiment, so it ends by itself whoever is at work by then.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from genepool.errors import SettingsError
from genepool.evolution.budget import Spending


class Escape(msgspec.Struct, frozen=True, kw_only=True):
    """When a population counts as trapped, and the phase of more mutations that may free it."""

    alarm: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Individuals in a row without a new best after which an alarm is shown; none: no alarm."""
    auto: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Differs from the paper if given: individuals that a phase of `escape.mutations` lasts that begins by itself with
    the alarm; none: only the alarm."""
    mutations: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Mutations per reproduction during an escape."""
    individuals: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """The escape ends when this many individuals have been trained in total; set by `genepool intervene`."""
    time: Annotated[float, Meta(gt=0, le=1e11)] | None = None
    """The escape ends when the experiment has taken this many seconds in total; set by `genepool intervene`."""
    quiet_until: Annotated[int, Meta(ge=0, le=10**12)] = 0
    """The alarm is silent until this many individuals have been trained in total: the last intervention needs time to
    work. Set by `genepool intervene`."""
    reset_version: Annotated[int, Meta(ge=0, le=10**6)] = 0
    """Individuals born under older versions of the settings pass on no weights and are trained again from fresh ones;
    set by `genepool intervene --reset-weights`."""

    @property
    def matters(self) -> bool:
        """Whether anybody must know what has been spent."""
        return bool(self.alarm or self.individuals or self.time)

    def lasts(self, spent: Spending) -> bool:
        """Whether this is the phase of more mutations."""
        by_count = not self.individuals or spent.individuals < self.individuals
        by_time = not self.time or spent.seconds < self.time
        return bool(self.individuals or self.time) and by_count and by_time

    def rings(self, spent: Spending) -> bool:
        """Whether nothing has got better for too long."""
        waited = min(spent.since_best, spent.individuals - self.quiet_until)
        return self.alarm is not None and waited >= self.alarm and not self.lasts(spent)

    def is_due(self, spent: Spending) -> bool:
        """Whether a phase should begin by itself. Differs from the paper: there people began it."""
        return bool(self.auto) and self.rings(spent)

    def told(self, spent: Spending) -> str:
        """What there is to say about it, or nothing."""
        if self.lasts(spent):
            counts = [f"{self.individuals} individuals"] if self.individuals else []
            times = [f"{self.time:.0f} s"] if self.time else []
            return f"{self.mutations} mutations at each reproduction until {' or '.join(counts + times)} in all"
        if self.rings(spent):
            return f"ALARM: {spent.since_best} individuals without a better one"
        return ""


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody does to a population that is trapped."""

    mutations: int = 0
    """At each reproduction for a while; 0: as before."""
    individuals: int = 0
    """How many individuals the while lasts."""
    seconds: float = 0.0
    """How long the while lasts, where it is not counted in individuals."""
    reset_weights: bool = False
    population: int = 0
    """A new size; 0: the old one."""

    def __post_init__(self) -> None:
        if not (self.mutations or self.reset_weights or self.population):
            raise SettingsError("Nothing is to be done; give --mutations with --for, --reset-weights or --population.")
        if bool(self.mutations) != bool(self.individuals or self.seconds):
            raise SettingsError("More mutations last for a while; give both --mutations 5 and --for 500, or --for 10m.")

    @property
    def label(self) -> str:
        """In a few words."""
        parts = [f"{self.mutations} mutations"] if self.mutations else []
        parts += ["weights reset"] if self.reset_weights else []
        return ", ".join(parts + ([f"population {self.population}"] if self.population else []))

    def changes(self, spent: Spending, version: int) -> dict[str, Any]:
        """The settings that change, by name, given what has been spent and the version that they will have."""
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
