"""Which children may be born: those that there is time to train and that are not too large to be trained at all.

Differs from the paper, where every child is born; off unless the settings ask for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from genepool.dna import DNA, Capacity, Shape, StepTime, capacity, cropped, modest, step_time
from genepool.errors import LayerError, ModelTooLargeError
from genepool.evaluation import Limits, TrainingBudget
from genepool.evolution.training import dna_of, training_budget_of
from genepool.population import Individual, Population

IsAllowed = Callable[[DNA], bool]
NO_STEP_TIME, NO_CAPACITY = StepTime(0.0, 0.0), Capacity(0, 0)


class ChildLimits(NamedTuple):
    """What is known about networks before they are trained."""

    step_time: Callable[[DNA, float], StepTime] = lambda dna, crop: NO_STEP_TIME
    """Predicts the training step of a network on crops of this fraction of the image's side."""
    capacity: Callable[[DNA], Capacity] = lambda dna: NO_CAPACITY
    image: Shape | None = None

    def affordable(self, budget: TrainingBudget, steps: int, population: Population, parent: Individual) -> IsAllowed:
        """Allow children whose budget is enough for `steps` steps, judged by how long the parent's steps took, and
        always those that cost no more than a modest network: sometimes only the trivial one would be affordable."""
        always = self.step_time(modest(self.image.channels), budget.crop) if self.image else NO_STEP_TIME
        if not budget.seconds:
            flops = max(budget.flops / steps, always.flops)
            return lambda child: not budget.flops or self.step_time(child, budget.crop).flops <= flops
        seconds = max(budget.seconds / steps / self._slowdown(population, parent), always.seconds)
        return lambda child: self.step_time(child, budget.crop).seconds <= seconds

    def _slowdown(self, population: Population, parent: Individual) -> float:
        birth, result = population.read_birth(parent), population.read_result(parent)
        budget = training_budget_of(birth)
        measured = float(result.metrics.get("step_seconds") or 0.0) * max(1, budget.threads)
        estimated = self.step_time(dna_of(birth), budget.crop).seconds
        return measured / estimated if measured and estimated else 1.0

    def within(self, limits: Limits) -> IsAllowed:
        return lambda child: limits.fault(self.capacity(child)) is None

    def smaller_than(self, parent: DNA) -> IsAllowed:
        """Allow children that need fewer FLOPs: how long they take is only known once they are trained."""
        flops = self.capacity(parent).flops
        return lambda child: not flops or self.capacity(child).flops < flops


def child_limits_for(image: Shape, classes: int, batch: int) -> ChildLimits:
    @lru_cache(maxsize=256)
    def step_time_of(dna: DNA, crop: float) -> StepTime:
        try:
            return step_time(dna, cropped(image, crop), classes, batch)
        except ModelTooLargeError:
            return StepTime(float("inf"), float("inf"))
        except LayerError:  # it may be born, and its evaluation fails with the reason
            return NO_STEP_TIME

    @lru_cache(maxsize=256)
    def capacity_of(dna: DNA) -> Capacity:
        try:
            return capacity(dna, image, classes)
        except ModelTooLargeError:
            return Capacity(sys.maxsize, sys.maxsize)
        except LayerError:
            return NO_CAPACITY

    return ChildLimits(step_time_of, capacity_of, image)
