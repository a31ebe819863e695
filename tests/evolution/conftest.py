"""A population in memory and an evaluator that needs no training: fitness from the DNA alone."""

from random import Random

import pytest

from genepool.errors import DataError
from genepool.evaluation import Evaluation, Progress, Trained, ignore
from genepool.evolution import Breeding, Rules, Worker
from genepool.population import MemoryPopulation, MemoryStore
from genepool.testing.harness import Clock


class Judge:
    """Fitness grows with the number of convolutions; weights tell who the parent was and how far training went."""

    def __init__(self, steps=100):
        self.steps = steps
        self.seen = []
        self.answered = 0

    def evaluate(self, dna, *, seed, inherited=None, checkpoint=None, observe=ignore, plan=None):
        if inherited == b"damaged":
            raise DataError("these are not weights")
        start = int(checkpoint or 0)
        self.seen.append((dna, seed, inherited, start))
        for step in range(start + 10, self.steps + 1, 10):
            observe(Progress(step, self.steps, 1.0, str(step).encode))
        self.answered += 1
        fitness = min(0.99, 0.1 + 0.05 * len(dna.convs) + (seed % 1000) / 1e5)
        return Trained(Evaluation(fitness=fitness, steps=self.steps, flops=100, seconds=1.0), b"w%d" % seed)


class World:
    """Some workers on one population in memory."""

    def __init__(self):
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock, lease=60.0)
        self.judge = Judge()
        self.rules = Rules(population_size=10, breeding=Breeding())
        self.slept = []

    def worker(self, seed=0, **options):
        population = MemoryPopulation(self.store)
        return Worker(
            population,
            Random(seed),
            rules=lambda: self.rules,
            evaluator=lambda version: self.judge,
            sleep=self.slept.append,
            clock=self.clock,
            **options,
        )

    def trainings(self, count):
        """A reason to stop after so many more trainings."""
        enough = self.judge.answered + count
        return lambda: "enough" if self.judge.answered >= enough else None

    def living(self):
        return [i for i in MemoryPopulation(self.store).snapshot() if i.state.name in ("ALIVE", "TRAINING")]


@pytest.fixture
def world():
    return World()
