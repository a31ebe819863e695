"""One training as a worker runs it: inherited weights in, heartbeats and checkpoints meanwhile, the result stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from genepool.dna import DNA, decode
from genepool.errors import ConcurrencyError, DataError, StepAbandoned, StorageError
from genepool.evaluation import AS_CONFIGURED, Evaluators, Progress, Trained, TrainingBudget, TrainingRequest
from genepool.evolution.budget import BudgetUse
from genepool.evolution.peers import Peers
from genepool.population import WEIGHTS, Birth, Checkpoint, Individual, Population

log = logging.getLogger(__name__)

SHORTEST = 0.25  # seconds; a shorter training is not worth starting
CHECK_EVERY = 0.5  # seconds between two checks, during a training, for a reason to stop
LONGEST_WAIT = 30.0  # seconds between two attempts on a disk that is full or fails


class Job(NamedTuple):
    """An individual that this worker owns and has to train."""

    individual: Individual
    birth: Birth
    dna: DNA
    parents: tuple[Individual, ...] = ()
    """The parents that pass on their weights; empty if the individual was taken over from another worker."""
    checkpoint: Checkpoint | None = None


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker reaches the others of its run, to share a training."""

    number: int = 0
    """Its number among them. The first of as many as can share a batch begins; the others wait for its invitation."""
    address: str | None = None
    """Where other machines reach this one; None: trainings are shared on this machine only."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The process around a worker: its time, its cores, and reasons to stop."""

    reason_to_stop: Callable[[], str | None] = lambda: None
    budget_use: Callable[[], BudgetUse] = BudgetUse
    final_phase_threads: int = 1
    """Threads for a training in the final phase; 0 if this worker leaves its core to one that has several."""
    sharing: Sharing | None = None
    """How this worker shares a training with others; None: it cannot."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


class StopRequested(StepAbandoned):
    """The worker has to stop in the middle of a training, which it has handed over."""


def dna_of(birth: Birth) -> DNA:
    return decode(bytes(birth.dna))


def training_budget_of(birth: Birth) -> TrainingBudget:
    return msgspec.convert(birth.training_budget, TrainingBudget) if birth.training_budget else AS_CONFIGURED


class Trainer:
    """Trains the individuals of one worker, the first ones from `first_weights` if given, and stores the results."""

    def __init__(
        self, population: Population, evaluator: Evaluators, surroundings: Surroundings, first_weights: bytes | None
    ) -> None:
        self.population, self.evaluator, self.surroundings = population, evaluator, surroundings
        self._first_weights, self._failures = first_weights, 0
        self.flops = 0
        """FLOPs that this worker has executed, whatever became of them. Its heartbeats show them, so that those of a
        training that it does not finish are known too."""

    def train(self, job: Job, checkpoint_every: float, most_peers: int = 0) -> None:
        """Train an individual and store its result; at most so many other workers may take part."""
        inherited = self._inherited(job)
        recombination = job.birth.mutations[0] if len(inherited) > 1 else ""
        checkpoint = job.checkpoint.data if job.checkpoint else None
        budget = training_budget_of(job.birth)
        request = TrainingRequest(job.dna, job.birth.training_seed, inherited, recombination, checkpoint, budget)
        evaluator = self.evaluator(job.birth.settings_version)
        before, monitor = self.flops, TrainingMonitor(self, job.individual, checkpoint_every)
        try:
            with self._shared(job.individual, most_peers) as peers:
                trained = evaluator.evaluate(msgspec.structs.replace(request, peers=peers), monitor)
            self.flops = before + trained.evaluation.executed
        except DataError as error:
            # The bytes are as they were written, but they are not weights. The parents have the same ones, which would
            # spoil every child to come. Which parent's are at fault is unknown.
            for individual in (job.individual, *job.parents):
                self.population.quarantine(individual, "weights")
            raise ConcurrencyError(f"Individual {job.individual.id} has no usable weights: {error}") from error
        self.store(job, trained)

    @contextmanager
    def _shared(self, individual: Individual, most_peers: int) -> Iterator[Peers | None]:
        """Invite other workers to a training while the context lasts. The invitation is in this worker's directory, so
        that they find each other without a server."""
        peers, sharing = None, self.surroundings.sharing
        if sharing is not None and most_peers:
            try:
                peers = Peers(individual.id, most_peers, sharing.address)
            except OSError as error:
                log.warning("Other workers cannot take part in this training: %s.", error)
        if peers is None:
            yield None
            return
        try:
            self.population.invite(msgspec.json.encode(peers.invitation))
            yield peers
        finally:
            self.population.invite(None)
            peers.close()

    def _inherited(self, job: Job) -> tuple[bytes, ...]:
        """Return the parents' weights as they were linked in; if they are damaged, the parents' own may be too."""
        if not job.birth.parents:
            return (self._first_weights,) if self._first_weights is not None else ()
        try:
            return self.population.inherited_weights(job.individual)
        except ConcurrencyError:
            for parent in job.parents:
                self.population.weights(parent)  # puts damaged weights into quarantine
            raise

    def store(self, job: Job, trained: Trained) -> None:
        """Store the result; on a full disk, try again and again, because it may be hours of training."""
        metrics = msgspec.to_builtins(trained.evaluation)
        fitness = metrics.pop("fitness")
        files = {WEIGHTS: trained.weights} if trained.weights is not None else {}
        while True:
            try:
                self.population.finish(job.individual, fitness=fitness, metrics=metrics, files=files)
                return
            except StorageError as error:
                if self.surroundings.reason_to_stop() is not None:
                    raise
                self.wait_for_storage(error)

    def wait_for_storage(self, error: StorageError) -> None:
        self._failures += 1
        wait = min(LONGEST_WAIT, 0.1 * 2**self._failures)
        log.warning("%s Trying again in %.1f s.", error, wait)
        self.surroundings.sleep(wait)

    def storage_works(self) -> None:
        self._failures = 0


class TrainingMonitor:
    """The observer of one training: it sends heartbeats, saves checkpoints, and stops when the worker has to."""

    def __init__(self, trainer: Trainer, individual: Individual, checkpoint_every: float) -> None:
        self._trainer, self._individual, self._checkpoint_every = trainer, individual, checkpoint_every
        self._population, self._surroundings = trainer.population, trainer.surroundings
        self._saved_at = self._checked_at = self._surroundings.clock()
        self._flops_before = trainer.flops
        self._population.heartbeat("train", 0, trainer.flops)

    def __call__(self, progress: Progress) -> None:
        self._trainer.flops = self._flops_before + progress.flops
        self._population.heartbeat("train", progress.step, self._trainer.flops)
        if progress.step == progress.steps:
            return
        if (reason := self._reason_to_stop()) is not None:
            self._save(progress)
            self._population.hand_over(self._individual)
            raise StopRequested(reason)
        if self._surroundings.clock() - self._saved_at >= self._checkpoint_every:
            self._save(progress)

    def _reason_to_stop(self) -> str | None:
        """Check only every now and then: the answer may require reading the records of the whole population."""
        if self._surroundings.clock() - self._checked_at < CHECK_EVERY:
            return None
        self._checked_at = self._surroundings.clock()
        return self._surroundings.reason_to_stop()

    def _save(self, progress: Progress) -> None:
        """Save a checkpoint if there is room: neither the training nor handing it over depends on it."""
        checkpoint = Checkpoint(step=progress.step, data=progress.checkpoint())
        with suppress(StorageError):
            self._population.save_checkpoint(self._individual, checkpoint)
        self._saved_at = self._surroundings.clock()
