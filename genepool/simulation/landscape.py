"""A stand-in for training: how long it would take, by the cost model, and what fitness it would reach.

The fitness is a caricature with the traits that matter for planning: larger networks can reach more, but only with
training that they may have inherited; a child starts where its parent stopped; results are noisy.
"""

from __future__ import annotations

import math
from random import Random

import msgspec

from genepool.dna import DNA, Shape, cost, individual_flops
from genepool.evaluation import Evaluation, Trained


class Landscape(msgspec.Struct, frozen=True, kw_only=True):
    """A data set, a machine and a recipe, as far as duration and fitness depend on them."""

    image: Shape = Shape(32, 32, 3)
    classes: int = 10
    batch: int = 50
    steps: int = 25_600
    validation_images: int = 5000
    flops_a_second: float = 5e10
    """Of one worker: about one CPU core."""
    overhead: float = 0.05
    """Seconds an individual, whatever its size."""
    step_overhead: float = 0.001
    """Seconds a training step, whatever the size of the network."""
    max_flops: float = 5e9
    """Of one step; larger networks are refused, as the evaluator refuses what does not fit."""

    def train(self, dna: DNA, seed: int, inherited: bytes | None) -> Trained:
        """What training this DNA would give; `seconds` is how long it would take."""
        price = cost(dna, self.image, self.classes, self.batch)
        if price.training.total > self.max_flops:
            return Trained(Evaluation(fitness=0.0, reason="too large", seconds=self.overhead), None)
        flops = individual_flops(price, self.steps, self.validation_images)
        trained_before = float(inherited) if inherited else 0.0
        effort = trained_before + flops
        capacity = 1 - 0.75 * math.exp(-math.log10(1 + price.parameters) / 3)
        reached = 1 - math.exp(-effort / (1e5 * price.training.total + 1))
        noise = Random(seed).gauss(0.0, 0.005)
        return Trained(
            Evaluation(
                fitness=min(0.999, max(0.0, 0.1 + (capacity - 0.1) * reached + noise)),
                parameters=price.parameters,
                flops=flops,
                steps=self.steps,
                seconds=self.overhead + self.steps * self.step_overhead + flops / self.flops_a_second,
            ),
            b"%f" % effort,
        )
