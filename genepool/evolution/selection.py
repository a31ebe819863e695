"""Who of a pair is the better one. A new way is one function and one registration."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from genepool.population import Individual
from genepool.registry import Registry


class Pair(NamedTuple):
    """Two living, trained individuals: the first may reproduce, the second may die."""

    better: Individual
    worse: Individual


Selection = Callable[[Individual, Individual, Random], Pair]

SELECTIONS: Registry[Selection] = Registry("selection", "genepool.selections")


@SELECTIONS.register("tournament")
def tournament(one: Individual, other: Individual, rng: Random) -> Pair:
    """By fitness, as in the paper. Of two that are equally fit the first drawn wins, which is one of them at random."""
    return Pair(one, other) if (one.fitness or 0.0) >= (other.fitness or 0.0) else Pair(other, one)


@SELECTIONS.register("random")
def by_chance(one: Individual, other: Individual, rng: Random) -> Pair:
    """The paper's control: whoever was drawn first reproduces and the other dies, whatever their fitness."""
    return Pair(one, other)
