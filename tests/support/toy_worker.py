"""A worker reduced to its use of the population: the smallest loop that uses every operation."""

from __future__ import annotations

import hashlib
import random

from genepool.errors import PopulationTooSmallError, StepAbandoned, StorageError
from genepool.population import WEIGHTS, Checkpoint, Individual, Population, State
from genepool.testing import make_birth

Acknowledged = dict[str, float]


class ToyWorker:
    """Evolves a population towards a set-point; its training is a hash."""

    def __init__(self, population: Population, rng: random.Random, size: int, finished: Acknowledged) -> None:
        self.population = population
        self.rng = rng
        self.size = size
        self.finished = finished
        self.steps = 0
        self.hand_over = 0.05
        self.stopping = False

    def try_step(self) -> bool:
        """Try one step; return False if it was abandoned."""
        self.steps += 1
        try:
            self.population.heartbeat("step", self.steps)
            self.step()
        except StepAbandoned:
            return False
        return True

    def step(self) -> None:
        population = self.population
        for garbage in population.garbage():
            if garbage.state is not State.DEAD or self.rng.random() >= 0.3:
                population.collect(garbage)
        for orphan in population.orphans():
            mine = population.take_over(orphan)
            if mine.state is State.TRAINING:
                self.train(mine)
            return
        self.reproduce()

    def reproduce(self) -> None:
        population = self.population
        population.heartbeat("reproduce", self.steps)
        size = population.size()
        if size < 2:
            self.train(population.create(make_birth(self.rng.randrange(1000))))
            return
        better, worse = self.draw(), self.draw()
        if better.id == worse.id or State.TRAINING in (better.state, worse.state):
            if size < self.size:
                self.train(population.create(make_birth(self.rng.randrange(1000))))
            return
        if better.fitness < worse.fitness:
            better, worse = worse, better
        if size >= self.size and population.census(fresh=True).alive > max(2, self.size // 2):
            population.kill(worse)
        if size <= self.size:
            population.read_birth(better)
            birth = make_birth(self.rng.randrange(1000), parents=(better,))
            self.train(population.create(birth, parents=(better,)))

    def draw(self) -> Individual:
        try:
            return self.population.sample(self.rng)
        except PopulationTooSmallError:
            return self.population.create(make_birth(0))

    def train(self, mine: Individual) -> None:
        population = self.population
        population.heartbeat("load", self.steps)
        inherited = b"".join(population.inherited_weights(mine))
        saved = population.checkpoint(mine)
        begun = saved.step if saved else 0
        if self.rng.random() < 0.3:
            population.save_checkpoint(mine, Checkpoint(step=begun + 1, data=inherited + bytes([begun % 256])))
            population.heartbeat("train", self.steps * 100 + begun)
        if self.rng.random() < self.hand_over:
            population.hand_over(mine)
            return
        population.heartbeat("evaluate", self.steps)
        weights = hashlib.sha256(inherited + mine.attempt.encode()).digest()
        fitness = int.from_bytes(weights[:4]) / 2**32
        try:
            alive = population.finish(mine, fitness=fitness, metrics={"steps": begun}, files={WEIGHTS: weights})
        except StorageError:
            # A new attempt is the way to try again: it also finds out whether the first one succeeded.
            alive = population.take_over(mine)
            if alive.state is State.TRAINING:
                alive = population.finish(alive, fitness=fitness, files={WEIGHTS: weights})
        if alive.state is State.ALIVE:
            self.finished[alive.id] = alive.fitness
