"""The base of the contract tests: a population to join, a clock that tests set, and small example values."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable

import msgspec
import pytest

from genepool.population import WEIGHTS, Birth, Individual, Population


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A population under test: how to join it, and the clock that its leases are measured on."""

    join: Callable[[], Population]
    clock: Clock
    lease: float

    def live(self, *workers: Population, leases: float) -> None:
        """Let time pass in which only these workers write heartbeats and look around."""
        for heartbeat in range(round(leases * 10)):
            self.clock.advance(self.lease / 10)
            for worker in workers:
                worker.heartbeat("train", round(self.clock.now * 1000) + heartbeat)
                worker.orphans()


class UsesHarness:
    @pytest.fixture
    def harness(self) -> Harness:
        """Return the harness; subclasses override this."""
        raise NotImplementedError("Give your subclass of PopulationContract a fixture called `harness`.")


class Clock:
    """A clock that moves only when `advance` is called."""

    def __init__(self, start: float = 1_000.0) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def born(worker: Population, number: int = 0, *parents: Individual) -> Individual:
    return worker.create(make_birth(number, parents=parents), parents=parents)


def grown(worker: Population, number: int = 0, *parents: Individual, fitness: float = 0.5) -> Individual:
    child = born(worker, number, *parents)
    return worker.finish(child, fitness=fitness, metrics={"steps": 10}, files={WEIGHTS: make_weights(number)})


def make_birth(number: int = 0, *, parents: tuple[Individual, ...] = ()) -> Birth:
    """Return a birth record as a worker would write it; the DNA is opaque to the population."""
    return Birth(
        dna=msgspec.Raw(msgspec.json.encode({"toy": number})),
        parents=tuple(parent.id for parent in parents),
        mutations=("identity",) if parents else (),
        mutation_seed=number,
        training_seed=number + 1,
    )


def make_weights(number: int = 0, size: int = 1_000) -> bytes:
    """Return bytes that stand for weights, different for each number."""
    return hashlib.shake_128(number.to_bytes(8)).digest(size)
