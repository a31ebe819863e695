"""The production worker, unchanged, with the interface of the toy worker."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from genepool.evaluation import Observer, Trained, Training, TrainingRequest, ignore
from genepool.evolution import Rules, Surroundings, Worker
from genepool.population import Individual, Population, State
from genepool.testing import ToyEvaluator
from tests.support.toy_worker import Acknowledged

STEPS, SECONDS = 3, 150.0
"""Steps and duration of a training: long enough for other workers to act in between, and for a checkpoint."""


class ProductionWorker:
    """Runs `genepool.evolution.Worker` one step at a time."""

    def __init__(
        self,
        population: Population,
        rng: random.Random,
        size: int,
        finished: Acknowledged,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.population, self.rng, self.finished = population, rng, finished
        self.hand_over = 0.05
        self.stopping = False
        self._left = 0
        self._in_training = False
        self._toy = ToyEvaluator(steps=STEPS, seconds=SECONDS, sleep=sleep)
        self._bear_witness("finish")
        self._bear_witness("take_over")
        rules = Rules(population_size=size, training=Training(checkpoint_every=SECONDS / 2))
        self._worker = Worker(
            population,
            rng,
            rules=lambda: rules,
            evaluator=lambda version: self,
            surroundings=Surroundings(reason_to_stop=self._reason_to_stop, sleep=sleep, clock=clock),
        )

    def try_step(self) -> None:
        """Run one iteration of the worker's loop."""
        self._left = 1
        self._worker.run()

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        """Train with the toy evaluator, and remember that a training is running."""
        self._in_training = True
        try:
            return self._toy.evaluate(request, observe)
        finally:
            self._in_training = False

    def _reason_to_stop(self) -> str | None:
        if self._in_training:
            self.stopping = self.rng.random() < self.hand_over
            return "it was asked to stop" if self.stopping else None
        self._left -= 1
        return "the step is over" if self._left < 0 else None

    def _bear_witness(self, name: str) -> None:
        call = getattr(self.population, name)

        def witnessed(*arguments: Any, **options: Any) -> Individual:
            individual: Individual = call(*arguments, **options)
            if individual.state is State.ALIVE:
                self.finished[individual.id] = individual.fitness or 0.0
            return individual

        setattr(self.population, name, witnessed)
