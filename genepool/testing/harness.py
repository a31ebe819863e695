"""What the population contract stands on: a population to join, a clock to turn by hand, and small made-up values.

The ground that all questions of the population's exam stand on: a population to join and a clock to turn.

Small made-up values for tests, and a clock that stands still until it is told to move.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable

import msgspec
import pytest

from genepool.population.contract import Population
from genepool.population.directory import names
from genepool.population.individual import Birth, Individual

WEIGHTS = names.WEIGHTS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A population to examine: how to join it, and the clock that its leases are measured on."""

    join: Callable[[], Population]
    clock: Clock
    lease: float

    def live(self, *workers: Population, leases: float) -> None:
        """Lets time pass in which only these workers beat and look around."""
        for heartbeat in range(round(leases * 10)):
            self.clock.advance(self.lease / 10)
            for worker in workers:
                worker.heartbeat("train", round(self.clock.now * 1000) + heartbeat)
                worker.orphans()


def born(worker: Population, number: int = 0, *parents: Individual) -> Individual:
    """Create a TRAINING individual that the worker owns."""
    return worker.create(make_birth(number, parents=parents), parents=parents)


def grown(worker: Population, number: int = 0, *parents: Individual, fitness: float = 0.5) -> Individual:
    """Create an ALIVE individual with weights."""
    child = born(worker, number, *parents)
    return worker.finish(child, fitness=fitness, metrics={"steps": 10}, files={WEIGHTS: make_weights(number)})


class UsesHarness:
    """What every part of the exam needs."""

    @pytest.fixture
    def harness(self) -> Harness:
        """Must be overridden."""
        raise NotImplementedError("Give your subclass of PopulationContract a fixture called exam.")


class Clock:
    """Seconds that pass only when `advance` is called."""

    def __init__(self, start: float = 1_000.0) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds


def make_birth(number: int = 0, *, parents: tuple[Individual, ...] = ()) -> Birth:
    """A birth record as a worker would write it; the population knows nothing about the DNA."""
    return Birth(
        dna=msgspec.Raw(msgspec.json.encode({"toy": number})),
        parents=tuple(parent.id for parent in parents),
        mutations=("identity",) if parents else (),
        mutation_seed=number,
        training_seed=number + 1,
    )


def make_weights(number: int = 0, size: int = 1_000) -> bytes:
    """Bytes that stand for weights; different for different numbers."""
    return hashlib.shake_128(number.to_bytes(8)).digest(size)
