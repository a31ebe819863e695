"""What real runs need besides the paper's step: orphans, the reset of all weights, and the final phase.

Differs from the paper, where evolution goes on to the end: in the final phase, the last part of the budget, no
tournament selects the parent, and one training of the best network uses several cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import Meta

from genepool.errors import ConcurrencyError, InvalidDNAError, MissingLayerError, SettingsError
from genepool.evaluation import Evaluators, most_slices
from genepool.evolution.budget import BudgetUse
from genepool.evolution.selection import Pair
from genepool.evolution.training import SHORTEST, Job, dna_of
from genepool.population import Individual, Population, State

if TYPE_CHECKING:
    from genepool.evolution.helper import Helper
    from genepool.evolution.reproduction import Reproduction


class Orphans(NamedTuple):
    """Individuals in training whose worker has died or handed them over: any worker may continue."""

    population: Population
    rng: Random
    evaluator: Evaluators
    report: Callable[[MissingLayerError], None]

    def handled(self, train: Callable[[Job], None]) -> bool:
        """Take over one orphan, if there is one that this worker can train."""
        if (orphan := self.found()) is None:
            return False
        taken = self.population.take_over(orphan)
        if taken.state is State.TRAINING:  # otherwise too many attempts had failed before, and it was given up
            train(self._resumed(taken))
        return True

    def found(self) -> Individual | None:
        """Return an orphan that this worker can train."""
        orphans = self.population.orphans()
        return orphan if orphans and self._can_train(orphan := self.rng.choice(orphans)) else None

    def _can_train(self, orphan: Individual) -> bool:
        """Whether this worker has all plugins that its DNA and the settings of its birth name; if not, other workers
        have to train it."""
        birth = self.population.read_birth(orphan)
        try:
            self.evaluator(birth.settings_version)
            dna_of(birth).require_kinds()
        except SettingsError:
            return False
        except MissingLayerError as error:
            self.report(error)
            return False
        except InvalidDNAError:
            return True  # to give it up
        return True

    def _resumed(self, individual: Individual) -> Job:
        birth = self.population.read_birth(individual)
        try:
            return Job(individual, birth, dna_of(birth), checkpoint=self.population.checkpoint(individual))
        except InvalidDNAError as error:
            self.population.fail(individual, "dna", str(error))
            raise ConcurrencyError(f"Individual {individual.id} has no usable DNA: {error}") from error


class WeightReset(NamedTuple):
    """The simultaneous reset of all weights (paper's supplement, "Escaping local optima"). Individuals born before
    `version` of the settings (0: no reset) are renewed when they are drawn for a tournament."""

    population: Population
    version: int

    def applies_to(self, individual: Individual) -> bool:
        return bool(self.version) and self.population.read_birth(individual).settings_version < self.version

    def renewed(self, pair: Pair, renewal_of: Callable[[Individual], Job]) -> Job | None:
        """Replace an individual of the pair by the same network with new weights, if the reset applies to one. The copy
        is born before the original dies, so that a crash in between does not lose the network. Of two workers that
        renew the same individual, one wins the original's death and the other gives up its copy.
        """
        if (outdated := next(filter(self.applies_to, pair), None)) is None:
            return None
        job = renewal_of(outdated)
        try:
            self.population.kill(outdated, "reset")
        except ConcurrencyError:
            self.population.fail(job.individual, "twice", "Another worker renewed the same individual first.")
            raise
        return job


GRACE = 0.02  # fraction of the budget for which the final phase waits for earlier trainings: one may become the best
PAUSE = 0.05  # seconds that a worker waits if it cannot begin its final training


class FinalPhase(msgspec.Struct, frozen=True, kw_only=True):
    """When the final phase begins."""

    share: Annotated[float, Meta(ge=0, le=0.9)] = 0.0
    """Differs from the paper if it is not 0: the last share of the budget, in which only the best trains on."""
    parallel: bool = False
    """Differs from the paper if on: workers on CPUs share that training. Each computes a slice of at least 25 images of
    every batch; a batch under 50 is not divided."""

    def has_begun(self, use: BudgetUse) -> bool:
        return use.fraction > 1.0 - self.share

    def is_waiting(self, use: BudgetUse) -> bool:
        """Whether trainings that began before the final phase may still end."""
        return use.fraction < 1.0 - self.share + GRACE


class FinalTraining:
    """Trains copies of the best individual, each for all the time that is left. `helper`: see Helper; None if trainings
    are not shared. `threads`: see Surroundings."""

    def __init__(
        self, reproduction: Reproduction, helper: Helper | None, threads: int, sleep: Callable[[float], None]
    ) -> None:
        self._reproduction, self._helper, self._sleep = reproduction, helper, sleep
        self._threads = 1 if helper else threads
        self._population, self._use = reproduction.population, reproduction.use
        self._phase = reproduction.rules.final_phase

    def handled(self, train: Callable[[Job], None]) -> bool:
        """Take the whole step if this is the final phase and an individual is alive."""
        if not self._phase.has_begun(self._use):
            return False
        if self._helper is not None and self._helper.helped():
            return True
        if not (ranking := self._ranking()):
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
        in_seconds = self._use.unit == "seconds"
        if in_seconds and self._use.left < SHORTEST:
            return False
        if (self._threads > 1 or self._helper) and self._phase.is_waiting(self._use) and self._is_training():
            return False
        if self._helper is not None:
            group = most_slices(self._reproduction.rules.training.batch)
            return self._helper.may_lead(self._use.left if in_seconds else math.inf, group)
        return self._threads > 0

    def _is_training(self) -> bool:
        return any(individual.state is State.TRAINING for individual in self._population.snapshot())

    def _copy_of_best(self, ranking: list[Individual]) -> Job:
        best, worst = self._reproduction.parent(ranking[0]), ranking[-1]
        if len(ranking) > self._reproduction.rules.population_size and worst != best.individual:
            self._population.kill(worst)
        return self._reproduction.copy_of(best, threads=self._threads if self._threads > 1 else 0)
