"""A cluster in virtual time: the real worker and the real contract, with training replaced by a model of it.

A stand-in for training: how long it would take, by the cost model, and what fitness it would reach.

The fitness is a caricature with the traits that matter for planning: larger networks can reach more, but only with
training that they may have inherited; a child starts where its parent stopped; results are noisy.

Many workers on one population, in one thread and in virtual time: what happens next is the earliest event.

A worker's step is the production code; between its two halves, before and after training, others get their turn.
"""

from __future__ import annotations

import heapq
import itertools
import math
import resource
import time
from random import Random
from typing import NamedTuple

import msgspec

from genepool.dna import DNA, Shape, individual_flops, requirements
from genepool.errors import StepAbandoned
from genepool.evaluation import Evaluation, Evaluator, Trained
from genepool.evolution.worker import Job, Rules, Worker
from genepool.population import MemoryPopulation, MemoryStore


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
        needs = requirements(dna, self.image, self.classes, self.batch)
        if needs.training.total > self.max_flops:
            return Trained(Evaluation(fitness=0.0, reason="too large", seconds=self.overhead), None)
        flops = individual_flops(needs, self.steps, self.validation_images)
        trained_before = float(inherited) if inherited else 0.0
        effort = trained_before + flops
        capacity = 1 - 0.75 * math.exp(-math.log10(1 + needs.parameters) / 3)
        reached = 1 - math.exp(-effort / (1e5 * needs.training.total + 1))
        noise = Random(seed).gauss(0.0, 0.005)
        return Trained(
            Evaluation(
                fitness=min(0.999, max(0.0, 0.1 + (capacity - 0.1) * reached + noise)),
                parameters=needs.parameters,
                flops=flops,
                steps=self.steps,
                seconds=self.overhead + self.steps * self.step_overhead + flops / self.flops_a_second,
            ),
            b"%f" % effort,
        )


NO_TIME = 0.005
"""Seconds that a step without a birth takes."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation showed; the keys of its JSON form are documented and stay."""

    workers: int
    population_size: int
    individuals: int
    """That became alive."""
    idle: float
    """The share of the workers' time in which they had nothing to train."""
    simulated_hours: float
    individuals_an_hour: float
    steps_an_hour: float
    """Of all workers, those that trained nothing included."""
    abandoned: int
    """Steps lost to races."""
    smallest: int
    largest: int
    """Living individuals, once the population had grown to its set-point."""
    best: float
    flops: int
    memory: int
    """Bytes of this process, at most."""
    seconds: float
    """That the simulation took."""


class _Event(NamedTuple):
    """A worker's next turn; after a training, with what came of it."""

    at: float
    order: int
    worker: Worker
    done: tuple[Job, Trained] | None


class Cluster:
    """A simulated cluster."""

    def __init__(self, *, workers: int, rules: Rules, landscape: Landscape, seed: int = 0) -> None:
        self.now = 0.0
        # Nobody dies here and nobody beats while it trains, so nobody may be taken for dead.
        self.store = MemoryStore(clock=lambda: self.now, lease=1e15)
        self._rules, self._landscape = rules, landscape
        self._workers = [self._worker(Random(f"{seed} {number}")) for number in range(workers)]
        self._events: list[_Event] = []
        self._order = itertools.count()
        self._trained = 0.0
        self._pause = 0.0
        self._abandoned = self._finished = self._flops = self._steps = 0
        self._best = 0.0
        self._smallest, self._largest = rules.population_size, 0

    def _worker(self, rng: Random) -> Worker:
        return Worker(
            MemoryPopulation(self.store),
            rng,
            rules=lambda: self._rules,
            evaluator=_never_asked,
            sleep=self._rest,
            clock=lambda: self.now,
        )

    def _rest(self, seconds: float) -> None:
        self._pause = seconds

    def run(self, individuals: int) -> Outcome:
        """Until so many have become alive."""
        started = time.perf_counter()
        for worker in self._workers:  # not all at the very same moment
            self._plan(worker.rng.random(), worker)
        while self._finished < individuals:
            self.now, _, worker, done = heapq.heappop(self._events)
            if done is not None:
                self._end(worker, *done)
            self._begin(worker)
        return self._outcome(time.perf_counter() - started)

    def _plan(self, at: float, worker: Worker, done: tuple[Job, Trained] | None = None) -> None:
        heapq.heappush(self._events, _Event(at, next(self._order), worker, done))

    def _begin(self, worker: Worker) -> None:
        """The first half of a step; what there is to train is trained at once, and told when its time is over."""
        self._pause = NO_TIME
        self._steps += 1
        job = None
        try:
            job = worker.begin()
        except StepAbandoned:
            self._abandoned += 1
        if job is None:
            self._plan(self.now + self._pause, worker)
            return
        inherited = next(iter(worker.population.inherited_weights(job.individual)), None)
        trained = self._landscape.train(job.dna, job.birth.training_seed, inherited)
        self._plan(self.now + trained.evaluation.seconds, worker, (job, trained))

    def _end(self, worker: Worker, job: Job, trained: Trained) -> None:
        """The second half, and the burials."""
        worker.end(job, trained)
        for individual in worker.population.garbage():
            worker.population.collect(individual)
        self._finished += 1
        self._flops += trained.evaluation.flops
        self._trained += trained.evaluation.seconds
        self._best = max(self._best, trained.evaluation.fitness)
        living = worker.population.size()
        if self._largest or living >= self._rules.population_size:
            self._smallest, self._largest = min(self._smallest, living), max(self._largest, living)

    def _outcome(self, seconds: float) -> Outcome:
        training = self._trained + sum(
            max(0.0, self.now - (event.at - event.done[1].evaluation.seconds)) for event in self._events if event.done
        )
        return Outcome(
            workers=len(self._workers),
            population_size=self._rules.population_size,
            individuals=self._finished,
            idle=max(0.0, 1 - training / (self.now * len(self._workers))),
            simulated_hours=self.now / 3600,
            individuals_an_hour=self._finished / (self.now / 3600),
            steps_an_hour=self._steps / (self.now / 3600),
            abandoned=self._abandoned,
            smallest=self._smallest,
            largest=self._largest,
            best=self._best,
            flops=self._flops,
            memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            seconds=seconds,
        )


def _never_asked(version: int) -> Evaluator:
    raise AssertionError("the simulation trains by itself")
