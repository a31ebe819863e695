"""How the population keeps its size without central control: each step may omit its death or its birth."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from genepool.population import Census
from genepool.registry import Registry


class Decision(NamedTuple):
    kill: bool
    reproduce: bool


SetPoint = Callable[[Census, int, Random], Decision]
"""Decides from the census as this worker sees it and the desired size."""

SET_POINTS: Registry[SetPoint] = Registry("set-point rule", "genepool.setpoints")


@SET_POINTS.register("paper")
def paper(census: Census, wanted: int, rng: Random) -> Decision:
    """Kill if the population is not too small; then, counting that death, reproduce if it is not too large."""
    kill = census.living >= wanted
    return Decision(kill, reproduce=census.living - kill < wanted)


@SET_POINTS.register("damped")
def damped(census: Census, wanted: int, rng: Random) -> Decision:
    """Differs from the paper: one death and one birth per step; one of them is omitted with a small probability. With
    listings that are seconds old, as on a network file system, all workers see the same surplus and, by the paper's
    rule, all of them kill: the size then oscillates by hundreds. Here the expected correction of all workers together
    is the surplus itself. The number of workers is about the number of individuals in training."""
    surplus = census.living - wanted
    workers = census.training + 1
    if rng.random() >= min(1.0, abs(surplus) / workers):
        return Decision(kill=True, reproduce=True)
    return Decision(kill=surplus > 0, reproduce=surplus < 0)


def floor(wanted: int) -> int:
    """Return how many must be alive before one may be killed: outdated listings must never lead to extinction."""
    return max(2, wanted // 2)
