"""Escaping local optima while evolution runs: the alarm, the phase of more mutations, the reset of all weights.

Follows "Escaping local optima" and the supplement's section of that name. An intervention is a new version of the
settings that says until when it lasts, in totals of the experiment, so it ends by itself whoever is at work by then.
"""

from __future__ import annotations

from typing import Any

import msgspec

from genepool.errors import SettingsError
from genepool.evolution.budget import Spending


class Escape(msgspec.Struct, frozen=True, kw_only=True):
    """When a population counts as trapped, and the phase of more mutations that may free it."""

    alarm: int = 0
    """Individuals without a new best after which it counts as trapped; 0: never."""
    quiet_until: int = 0
    """Before so many individuals the alarm does not ring: what was last done against it needs its time."""
    auto: int = 0
    """Individuals that a phase lasts which begins by itself with the alarm; 0: none does."""
    mutations: int = 5
    """At each reproduction during the phase."""
    individuals: int = 0
    """The phase lasts until so many have been trained in all; 0: no limit of this kind."""
    seconds: float = 0.0
    """The phase lasts until the experiment has taken so long in all; 0: no limit of this kind."""

    @property
    def matters(self) -> bool:
        """Whether anybody must know what has been spent."""
        return bool(self.alarm or self.individuals or self.seconds)

    def lasts(self, spent: Spending) -> bool:
        """Whether this is the phase of more mutations."""
        by_count = not self.individuals or spent.individuals < self.individuals
        by_time = not self.seconds or spent.seconds < self.seconds
        return bool(self.individuals or self.seconds) and by_count and by_time

    def rings(self, spent: Spending) -> bool:
        """Whether nothing has got better for too long."""
        waited = min(spent.since_best, spent.individuals - self.quiet_until)
        return bool(self.alarm) and waited >= self.alarm and not self.lasts(spent)

    def is_due(self, spent: Spending) -> bool:
        """Whether a phase should begin by itself. Differs from the paper: there people began it."""
        return bool(self.auto) and self.rings(spent)

    def told(self, spent: Spending) -> str:
        """What there is to say about it, or nothing."""
        if self.lasts(spent):
            counts = [f"{self.individuals} individuals"] if self.individuals else []
            times = [f"{self.seconds:.0f} s"] if self.seconds else []
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
        """The settings that change, where so much has been spent and this will be their version."""
        changes: dict[str, Any] = {"alarm_quiet_until": spent.individuals + self.individuals}
        if self.mutations:
            changes["escape_mutations"] = self.mutations
            changes["escape_individuals"] = spent.individuals + self.individuals if self.individuals else 0
            changes["escape_time"] = spent.seconds + self.seconds if self.seconds else 0.0
        if self.reset_weights:
            changes["reset_version"] = version
        if self.population:
            changes["population_size"] = self.population
        return changes
