"""Which children may be born: those that there is time to train, and that are not too large to be trained at all.

Differs from the paper, where every child is born, whatever it costs; off unless the rules ask for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from genepool.dna import DNA, Capacity, Shape, StepTime, capacity, cropped, step_time
from genepool.dna.zoo import modest as modest_network
from genepool.errors import ModelTooLargeError
from genepool.evaluation import Limits, Plan
from genepool.evolution.reproduction import dna_of, plan_of
from genepool.population import Individual, Population

StepTimes = Callable[[DNA, float], StepTime]
"""What a training step of a network costs with crops of that share of the images."""
FREE_OF_CHARGE = StepTime(0.0, 0.0)
Capacities = Callable[[DNA], Capacity]
"""How large a network is."""
NOTHING = Capacity(0, 0)
Question = Callable[[DNA], bool]
"""Whether a child may be born."""


class ChildLimits(NamedTuple):
    """What is known of networks before they are trained."""

    step_time: StepTimes = lambda dna, crop: FREE_OF_CHARGE
    size: Capacities = lambda dna: NOTHING
    image: Shape | None = None
    """The images' shape."""

    def affordable(self, plan: Plan, steps: int, population: Population, parent: Individual) -> Question:
        """Whether a child would have time for so many steps, judged by how long its parent's took.

        What costs no more than a modest network may always be born: on large images, or in a short time, nothing else
        could be afforded than the trivial one.
        """
        modest = self.step_time(modest_network(self.image.channels), plan.crop) if self.image else FREE_OF_CHARGE
        if not plan.seconds:
            flops = max(plan.flops / steps, modest.flops)
            return lambda child: not plan.flops or self.step_time(child, plan.crop).flops <= flops
        seconds = max(plan.seconds / steps / self._pace(population, parent), modest.seconds)
        return lambda child: self.step_time(child, plan.crop).seconds <= seconds

    def _pace(self, population: Population, parent: Individual) -> float:
        """How many times its price a step of the parent took here."""
        birth, result = population.read_birth(parent), population.read_result(parent)
        took = float(result.metrics.get("step_seconds") or 0.0) * max(1, plan_of(birth).threads)
        return took / self.step_time(dna_of(birth), plan_of(birth).crop).seconds if took else 1.0

    def bearable(self, limits: Limits) -> Question:
        """Whether a child is not too large."""
        return lambda child: limits.fault(self.size(child)) is None


def step_times_of(image: Shape, classes: int, batch: int) -> StepTimes:
    """The price of a training step, by DNA and crop."""

    @lru_cache(maxsize=256)
    def of_a_step(dna: DNA, crop: float) -> StepTime:
        try:
            return step_time(dna, cropped(image, crop), classes, batch)
        except ModelTooLargeError:
            return StepTime(float("inf"), float("inf"))

    return of_a_step


def capacities_of(image: Shape, classes: int) -> Capacities:
    """Parameters and FLOPs, by DNA."""

    @lru_cache(maxsize=256)
    def of_a_network(dna: DNA) -> Capacity:
        try:
            return capacity(dna, image, classes)
        except ModelTooLargeError:
            return Capacity(sys.maxsize, sys.maxsize)

    return of_a_network
