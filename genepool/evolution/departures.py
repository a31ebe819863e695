"""Departures from the paper's step that real runs need: orphans, and the reset of all weights."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from genepool.errors import ConcurrencyError, InvalidDNAError, SettingsError
from genepool.evaluation import Evaluators
from genepool.evolution.selection import Pair
from genepool.evolution.training import Job, dna_of
from genepool.population import Individual, Population, State


class Orphans(NamedTuple):
    """Individuals in training whose worker has died or handed them over: any worker may continue."""

    population: Population
    rng: Random
    evaluator: Evaluators

    def handled(self, train: Callable[[Job], None]) -> bool:
        """Take over one orphan, if there is one that this worker can train."""
        if not (orphans := self.population.orphans()) or not self._can_train(orphan := self.rng.choice(orphans)):
            return False
        taken = self.population.take_over(orphan)
        if taken.state is State.TRAINING:  # otherwise too many attempts had failed before, and it was given up
            train(self._resumed(taken))
        return True

    def _can_train(self, orphan: Individual) -> bool:
        """Whether this worker has all plugins that the settings of its birth name; if not, others have to train it."""
        try:
            self.evaluator(self.population.read_birth(orphan).settings_version)
        except SettingsError:
            return False
        return True

    def _resumed(self, individual: Individual) -> Job:
        birth = self.population.read_birth(individual)
        try:
            return Job(individual, birth, dna_of(birth), checkpoint=self.population.checkpoint(individual))
        except InvalidDNAError as error:
            self.population.fail(individual, "dna", str(error))
            raise ConcurrencyError(f"Individual {individual.id} has no usable DNA: {error}") from error


class WeightReset(NamedTuple):
    """The simultaneous reset of all weights (paper's supplement, "Escaping local optima").

    Individuals born before `version` of the settings (0: no reset) are renewed when they are drawn for a tournament.
    """

    population: Population
    version: int

    def applies_to(self, individual: Individual) -> bool:
        """Whether the weights of an individual, and the fitness that it owes to them, are older than the reset."""
        return bool(self.version) and self.population.read_birth(individual).settings_version < self.version

    def renewed(self, pair: Pair, renewal_of: Callable[[Individual], Job]) -> Job | None:
        """Replace an individual of the pair by the same network with new weights, if the reset applies to one."""
        outdated = next(filter(self.applies_to, pair), None)
        return None if outdated is None else self._renew(outdated, renewal_of)

    def _renew(self, individual: Individual, renewal_of: Callable[[Individual], Job]) -> Job:
        """The copy is born before the original dies, so that a crash in between does not lose the network.

        Of two workers that renew the same individual, one wins the original's death and the other gives up its copy.
        """
        job = renewal_of(individual)
        try:
            self.population.kill(individual, "reset")
        except ConcurrencyError:
            self.population.fail(job.individual, "twice", "Another worker renewed the same individual first.")
            raise
        return job
