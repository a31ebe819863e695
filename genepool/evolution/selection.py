"""How a pair of individuals is drawn and compared. A new way to compare is one function and one registration."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from genepool.errors import PopulationTooSmallError
from genepool.population import Individual, Population, State
from genepool.registry import Registry

DRAWS = 20  # pairs drawn in a row before a worker concludes that all other individuals are in training


class Pair(NamedTuple):
    """Two trained individuals that are alive: the first may reproduce, the second may die."""

    better: Individual
    worse: Individual


Selection = Callable[[Individual, Individual, Random], Pair]

SELECTIONS: Registry[Selection] = Registry("selection", "genepool.selections")


@SELECTIONS.register("tournament")
def tournament(one: Individual, other: Individual, rng: Random) -> Pair:
    """Compare by fitness, as in the paper. Of two equally fit individuals the first drawn wins, which is random."""
    return Pair(one, other) if (one.fitness or 0.0) >= (other.fitness or 0.0) else Pair(other, one)


@SELECTIONS.register("random")
def by_chance(one: Individual, other: Individual, rng: Random) -> Pair:
    """The paper's control: the first drawn reproduces and the other dies, regardless of fitness."""
    return Pair(one, other)


def draw_pair(population: Population, selection: Selection, rng: Random) -> Pair:
    """Draw two different individuals at random and compare them; those in training are drawn again."""
    for _ in range(DRAWS):
        one, other = population.sample(rng), population.sample(rng)
        if one.id != other.id and one.state is other.state is State.ALIVE:
            return selection(one, other, rng)
    raise PopulationTooSmallError("no two individuals are alive yet.")
