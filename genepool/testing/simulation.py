"""A cluster in virtual time: the production worker and population, with training replaced by a model of it."""

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
from genepool.evolution import Job, Rules, Surroundings, Worker
from genepool.population import MemoryPopulation, MemoryStore

SETTINGS = ((250, 1_000), (10_000, 40_000))  # workers and population: the paper's, and forty times as many
CURVE = tuple((workers, 4 * workers) for workers in (10, 100, 250, 1_000, 10_000))
TURNOVERS = 25
"""The most individuals per place of the population on the curve: small clusters would evolve far larger networks."""


class Landscape(msgspec.Struct, frozen=True, kw_only=True):
    """A data set, a machine and a recipe, as far as the duration and the fitness depend on them."""

    image: Shape = Shape(32, 32, 3)
    classes: int = 10
    batch: int = 50
    steps: int = 25_600
    validation_images: int = 5000
    flops_per_second: float = 5e10
    """The speed of one worker: about one CPU core."""
    overhead: float = 0.05
    """Seconds per individual, regardless of its size."""
    step_overhead: float = 0.001
    """Seconds per training step, regardless of the size of the network."""
    max_flops: float = 5e9
    """FLOPs of one step beyond which a network is refused, as the evaluator refuses networks that do not fit."""

    def train(self, dna: DNA, seed: int, inherited: bytes | None) -> Trained:
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
                seconds=self.overhead + self.steps * self.step_overhead + flops / self.flops_per_second,
            ),
            b"%f" % effort,
        )


EMPTY_STEP = 0.005  # seconds that a step without a birth takes


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    workers: int
    population_size: int
    individuals: int  # individuals that became alive
    idle: float  # fraction of the workers' time in which they had nothing to train
    simulated_hours: float
    individuals_per_hour: float
    steps_per_hour: float  # steps of all workers, including those without a training
    abandoned: int  # steps lost to races
    smallest: int
    largest: int  # number of living individuals, once the population had grown to its set-point
    best: float
    flops: int
    memory: int  # peak memory of this process in bytes
    seconds: float


class _Worker(Worker):
    """A worker that does not train: its jobs are left to the cluster."""

    def next_job(self) -> Job | None:
        self._jobs: list[Job] = []
        self.step()
        return self._jobs.pop() if self._jobs else None

    def train(self, job: Job) -> None:
        self._jobs.append(job)


class _Event(NamedTuple):
    """A worker's next step; after a training, with its result."""

    at: float
    order: int
    worker: _Worker
    done: tuple[Job, Trained] | None


class Cluster:
    def __init__(self, *, workers: int, rules: Rules, landscape: Landscape, seed: int = 0) -> None:
        self.now = 0.0
        # No worker dies here, and none sends heartbeats while it trains, so none may be taken for dead.
        self.store = MemoryStore(clock=lambda: self.now, lease=1e15)
        self._rules, self._landscape = rules, landscape
        self._workers = [self._worker(Random(f"{seed} {number}")) for number in range(workers)]
        self._events: list[_Event] = []
        self._order = itertools.count()
        self._trained = self._pause = self._best = 0.0
        self._abandoned = self._finished = self._flops = self._steps = 0
        self._smallest, self._largest = rules.population_size, 0

    def _worker(self, rng: Random) -> _Worker:
        return _Worker(
            MemoryPopulation(self.store),
            rng,
            rules=lambda: self._rules,
            evaluator=_no_evaluator,
            surroundings=Surroundings(sleep=self._sleep, clock=lambda: self.now),
        )

    def _sleep(self, seconds: float) -> None:
        self._pause = seconds

    def run(self, individuals: int) -> Outcome:
        started = time.perf_counter()
        for worker in self._workers:  # not all at the same moment
            self._schedule(worker.rng.random(), worker)
        while self._finished < individuals:
            self.now, _, worker, done = heapq.heappop(self._events)
            if done is not None:
                self._finish(worker, *done)
            self._step(worker)
        return self._outcome(time.perf_counter() - started)

    def _schedule(self, at: float, worker: _Worker, done: tuple[Job, Trained] | None = None) -> None:
        heapq.heappush(self._events, _Event(at, next(self._order), worker, done))

    def _step(self, worker: _Worker) -> None:
        """Take a step. If it has a training, the result is computed at once and stored when its time is over."""
        self._pause = EMPTY_STEP
        self._steps += 1
        job = None
        try:
            job = worker.next_job()
        except StepAbandoned:
            self._abandoned += 1
        if job is None:
            self._schedule(self.now + self._pause, worker)
            return
        inherited = next(iter(worker.population.inherited_weights(job.individual)), None)
        trained = self._landscape.train(job.dna, job.birth.training_seed, inherited)
        self._schedule(self.now + trained.evaluation.seconds, worker, (job, trained))

    def _finish(self, worker: _Worker, job: Job, trained: Trained) -> None:
        worker.trainer.store(job, trained)
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
            individuals_per_hour=self._finished / (self.now / 3600),
            steps_per_hour=self._steps / (self.now / 3600),
            abandoned=self._abandoned,
            smallest=self._smallest,
            largest=self._largest,
            best=self._best,
            flops=self._flops,
            memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            seconds=seconds,
        )


def _no_evaluator(version: int) -> Evaluator:
    raise AssertionError("the simulation needs no evaluator")
