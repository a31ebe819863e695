"""The final phase: the last part of the budget trains the best network and nothing else.

Differs from the paper, where evolution goes on to the end: no tournament selects the parent, and one training uses all
cores of a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from genepool.evolution.budget import BudgetUse
from genepool.evolution.training import SHORTEST, Job
from genepool.population import Individual, State

if TYPE_CHECKING:
    from genepool.evolution.reproduction import Reproduction

GRACE = 0.02
"""The fraction of the budget for which the final phase waits for earlier trainings: one may become the best."""
PAUSE = 0.05
"""Seconds that a worker waits if it cannot begin its final training."""


class FinalPhase(msgspec.Struct, frozen=True, kw_only=True):
    """When the final phase begins."""

    share: Annotated[float, Meta(ge=0, le=0.9)] = 0.0
    """Differs from the paper if it is not 0: the last share of the budget, in which only the best trains on."""

    def has_begun(self, use: BudgetUse) -> bool:
        return use.fraction > 1.0 - self.share

    def is_waiting(self, use: BudgetUse) -> bool:
        """Whether trainings that began before the final phase may still end."""
        return use.fraction < 1.0 - self.share + GRACE


class FinalTraining:
    """Trains copies of the best individual, each for all the time that is left. `threads`: see Surroundings."""

    def __init__(self, reproduction: Reproduction, threads: int, sleep: Callable[[float], None]) -> None:
        self._reproduction, self._threads, self._sleep = reproduction, threads, sleep
        self._population, self._use = reproduction.population, reproduction.use
        self._phase = reproduction.rules.final_phase

    def handled(self, train: Callable[[Job], None]) -> bool:
        """Take the whole step if this is the final phase and an individual is alive."""
        if not self._phase.has_begun(self._use) or not (ranking := self._ranking()):
            return False
        if self._can_begin():
            train(self._copy_of_best(ranking))
        else:
            self._sleep(PAUSE)
        return True

    def _ranking(self) -> list[Individual]:
        outdated, snapshot = self._reproduction.weight_reset.applies_to, self._population.snapshot()
        alive = [individual for individual in snapshot if individual.state is State.ALIVE and not outdated(individual)]
        return sorted(alive, key=lambda individual: individual.fitness or 0.0, reverse=True)

    def _can_begin(self) -> bool:
        """Whether there is enough time left, and this worker may use its cores."""
        if self._use.unit == "seconds" and self._use.left < SHORTEST:
            return False
        if self._threads > 1 and self._phase.is_waiting(self._use):
            return not any(individual.state is State.TRAINING for individual in self._population.snapshot())
        return self._threads > 0

    def _copy_of_best(self, ranking: list[Individual]) -> Job:
        """Create a copy of the best individual, in place of the worst if the population is too large."""
        best, worst = ranking[0], ranking[-1]
        if len(ranking) > self._reproduction.rules.population_size and worst != best:
            self._population.kill(worst)
        return self._reproduction.copy_of(best, threads=self._threads if self._threads > 1 else 0)
