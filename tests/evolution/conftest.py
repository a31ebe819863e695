"""A population in memory and an evaluator that needs no training: fitness from the DNA alone."""

from random import Random

import pytest
from msgspec.structs import replace

from genepool.errors import DataError
from genepool.evaluation import Evaluation, Progress, Trained, ignore
from genepool.evolution import Breeding, ChildLimits, Reproduction, Rules, Surroundings, Worker
from genepool.population import MemoryPopulation, MemoryStore
from genepool.testing import Clock


class Judge:
    """Fitness grows with the number of convolutions; weights show the seed of the training that made them."""

    def __init__(self, steps=100):
        self.steps = steps
        self.seen = []
        self.answered = 0

    def evaluate(self, request, observe=ignore):
        if b"damaged" in request.inherited:
            raise DataError("these are not weights")
        start = int(request.checkpoint or 0)
        self.seen.append((request.dna, request.seed, request.inherited, start))
        for step in range(start + 10, self.steps + 1, 10):
            observe(Progress(step, self.steps, 1.0, str(step).encode))
        self.answered += 1
        fitness = min(0.99, 0.1 + 0.05 * len(request.dna.convs) + (request.seed % 1000) / 1e5)
        return Trained(Evaluation(fitness=fitness, steps=self.steps, flops=100, seconds=1.0), b"w%d" % request.seed)


class World:
    """Some workers on one population in memory."""

    def __init__(self):
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock, lease=60.0)
        self.judge = Judge()
        self.rules = Rules(population_size=10, founders="two", breeding=Breeding())
        self.slept = []

    def worker(self, seed=0, *, limits=ChildLimits(), founder=None, **surroundings):  # noqa: B008 - a frozen value
        return Worker(
            MemoryPopulation(self.store),
            Random(seed),
            rules=lambda: self.rules,
            evaluator=lambda version: self.judge,
            surroundings=Surroundings(sleep=self.slept.append, clock=self.clock, **surroundings),
            limits=limits,
            founder=founder,
        )

    def trainings(self, count):
        """A reason to stop after this many more trainings."""
        enough = self.judge.answered + count
        return lambda: "enough" if self.judge.answered >= enough else None

    def living(self):
        return [i for i in MemoryPopulation(self.store).snapshot() if i.state.name in ("ALIVE", "TRAINING")]


def set_reason_to_stop(worker, reason):
    worker.trainer.surroundings = replace(worker.surroundings, reason_to_stop=reason)


def next_job(worker):
    """Take a step without its training; return the job, or None if there was nothing to train."""
    jobs = []
    worker.train = jobs.append
    worker.step()
    del worker.train
    return jobs[0] if jobs else None


def first_individual(population, seed=0, version=1):
    """A trivial individual in training."""
    return Reproduction(population=population, rng=Random(seed), rules=Rules(version=version)).first().individual


@pytest.fixture
def world():
    return World()
