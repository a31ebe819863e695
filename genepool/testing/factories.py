"""Small made-up values for tests, and a clock that stands still until it is told to move."""

from __future__ import annotations

import hashlib

import msgspec

from genepool.population.individual import Birth, Individual


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
