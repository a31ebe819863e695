"""The ground that all questions of the population's exam stand on: a population to join and a clock to turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from genepool.population import naming
from genepool.population.base import Population
from genepool.population.individual import Individual
from genepool.testing.factories import Clock, make_birth, make_weights

WEIGHTS = naming.WEIGHTS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """A population to examine: how to join it, and the clock that its leases are measured on."""

    join: Callable[[], Population]
    clock: Clock
    lease: float

    def live(self, *workers: Population, leases: float) -> None:
        """Lets time pass in which only these workers beat and look around."""
        for beat in range(round(leases * 10)):
            self.clock.advance(self.lease / 10)
            for worker in workers:
                worker.beat("train", round(self.clock.now * 1000) + beat)
                worker.orphans()


def born(worker: Population, number: int = 0, parent: Individual | None = None) -> Individual:
    """A TRAINING individual owned by the worker."""
    return worker.create(make_birth(number, parents=(parent,) if parent else ()), parent=parent)


def grown(worker: Population, number: int = 0, fitness: float = 0.5, parent: Individual | None = None) -> Individual:
    """An ALIVE individual with weights."""
    child = born(worker, number, parent)
    return worker.finish(child, fitness=fitness, metrics={"steps": 10}, files={WEIGHTS: make_weights(number)})


class Examined:
    """What every part of the exam needs."""

    @pytest.fixture
    def exam(self) -> Exam:
        """Must be overridden."""
        raise NotImplementedError("Give your subclass of PopulationContract a fixture called exam.")
