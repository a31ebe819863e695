"""Looks on at a training for its worker: shows life, keeps checkpoints, and ends it when the worker must go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from genepool.errors import StepAbandoned, StorageError
from genepool.evaluation import Progress
from genepool.population import Checkpoint, Individual, Population

ASK_EVERY = 0.5
"""Seconds between two questions, during a training, whether to stop."""


class ToldToStop(StepAbandoned):
    """The worker was asked to stop in the middle of a training, which it has handed over."""


class TrainingMonitor:
    """The observer of one training."""

    def __init__(
        self,
        population: Population,
        individual: Individual,
        *,
        checkpoint_every: float,
        reason_to_stop: Callable[[], str | None],
        clock: Callable[[], float],
    ) -> None:
        self._population, self._individual = population, individual
        self._checkpoint_every, self._reason, self._clock = checkpoint_every, reason_to_stop, clock
        self._saved_at = self._asked_at = clock()
        population.heartbeat("train", 0)

    def __call__(self, progress: Progress) -> None:
        self._population.heartbeat("train", progress.step)
        if progress.step == progress.steps:
            return
        if (reason := self._reason_to_stop()) is not None:
            self._save(progress)
            self._population.hand_over(self._individual)
            raise ToldToStop(reason)
        if self._clock() - self._saved_at >= self._checkpoint_every:
            self._save(progress)

    def _reason_to_stop(self) -> str | None:
        """Asked now and then only: the answer may take a look at the whole population."""
        if self._clock() - self._asked_at < ASK_EVERY:
            return None
        self._asked_at = self._clock()
        return self._reason()

    def _save(self, progress: Progress) -> None:
        """Keeps a checkpoint if there is room for one: neither the training nor handing it over depends on it."""
        checkpoint = Checkpoint(step=progress.step, data=progress.checkpoint())
        with suppress(StorageError):
            self._population.save_checkpoint(self._individual, checkpoint)
        self._saved_at = self._clock()
