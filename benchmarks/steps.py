"""A worker as in production whose trainings cost nothing: `genepool.evolution.Worker` with an instant evaluator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.seeding import WEIGHTS
from benchmarks.simultaneous import Work, timed
from genepool.evaluation import Evaluation, Observer, Trained, TrainingRequest, ignore
from genepool.evolution import Spending, Surroundings, Worker
from genepool.experiment import CurrentRules, Experiment
from genepool.population import DirectoryPopulation, Files
from genepool.population.directory.files import Durability

WARM_UP = 5
"""Steps before the clock starts: logs are open, the population has been swept once."""


class Instant:
    """Answers at once with weights of 10 kB; counts the individuals, and so the steps that were not abandoned."""

    def __init__(self) -> None:
        self.count = 0

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        """See genepool.evaluation.Evaluator."""
        self.count += 1
        names = tuple(edge.id for edge in request.dna.convs)
        evaluation = Evaluation(fitness=request.seed % 10_000 / 10_000, parameters=2500, steps=100, inherited=names)
        return Trained(evaluation, WEIGHTS)


class Stepper:
    """One worker that can be run for a given time."""

    def __init__(self, root: Path, files: Files) -> None:
        self._evaluator = Instant()
        self._enough: Callable[[], bool] = lambda: False
        experiment = Experiment.open(root, files)
        population = DirectoryPopulation.open(root, files=files)
        self._worker = Worker(
            population,
            Random(),
            rules=CurrentRules(experiment, population.who, Spending),
            evaluator=lambda version: self._evaluator,
            surroundings=Surroundings(reason_to_stop=lambda: "enough" if self._enough() else None),
        )

    def until(self, enough: Callable[[], bool]) -> int:
        """Step until the condition holds; return the number of individuals made."""
        before = self._evaluator.count
        self._enough = enough
        self._worker.run()
        return self._evaluator.count - before

    def steps(self, number: int) -> int:
        """Make that many steps."""
        end = self._evaluator.count + number
        return self.until(lambda: self._evaluator.count >= end)

    def seconds(self, seconds: float) -> int:
        """Make as many steps as fit, but at least one."""
        end, before = time.perf_counter() + seconds, self._evaluator.count
        return self.until(lambda: time.perf_counter() >= end and self._evaluator.count > before)


@dataclass(frozen=True)
class Evolve:
    """The job of one process: evolutionary steps on a population shared with the others."""

    root: Path
    durability: Durability

    def prepare(self) -> Work:
        stepper = Stepper(self.root, Files(durability=self.durability))
        stepper.steps(WARM_UP)
        return lambda seconds: [timed(lambda: stepper.seconds(seconds))]
