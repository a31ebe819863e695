"""The contract of a population: what every store promises to the workers that evolve it.

`genepool.testing.contract` tests these promises for any store:

* Any number of workers, each with its own `Population` object, share one population without communicating. Any of them
  may be killed, frozen or added at any moment.
* Every change of state is a compare-and-swap. It names the snapshot it starts from; it either succeeds or raises
  `ConcurrencyError` and changes nothing. If several workers try to change the same snapshot, exactly one succeeds.
* If the outcome of a change is uncertain, the store looks it up. If that fails too, or the disk refuses, it raises
  `StorageError`: the change has happened completely or not at all, and the next listing shows which. Repeating it is
  safe: a change that the same worker has already made either succeeds again without effect or is refused.
* An individual becomes visible only when it is complete. From then on it owns what it inherited: collecting a parent
  does not take anything away from the child.
* Once `finish` has returned, its result is never lost: the individual is in the population, or its fossil is in the
  archive.
* A worker may die while it trains. Its individual can be taken over once its heartbeat has not changed for a full
  lease, as seen by an observer whose own heartbeats succeeded during that time. A complete result is adopted, and a
  checkpoint is passed on.
* Everything read is checked against its hash. A worker that finds a damaged individual quarantines it and abandons its
  step with `ConcurrencyError`; an observer, which changes nothing, raises `DataError`.

One object is for one thread. It trains at most one individual at a time, so any other individual that it owns was left
behind and may be taken over.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Iterator, Mapping
from typing import Any

from genepool.errors import ConcurrencyError, PopulationTooSmallError
from genepool.population.individual import Birth, Census, Checkpoint, Fossil, Individual, Result, State

Metrics = Mapping[str, Any]
NamedData = Mapping[str, bytes]  # files of a result: their contents by name


class PopulationView(abc.ABC):
    """A population as observers see it: nothing here changes anything."""

    # Looking.

    @abc.abstractmethod
    def snapshot(self) -> list[Individual]:
        """Return every visible individual that is not COLLECTED, ordered by ID. This lists the whole population."""

    def sample(self, rng: random.Random) -> Individual:
        """Draw one TRAINING or ALIVE individual uniformly; raise PopulationTooSmallError if there is none."""
        living = [individual for individual in self.snapshot() if individual.living]
        if not living:
            raise PopulationTooSmallError("The population has no living individual to draw; create the first ones.")
        return living[rng.randrange(len(living))]

    def census(self, *, fresh: bool = False) -> Census:
        """Count the individuals in each state: now, or (not `fresh`) some seconds ago, plus the caller's changes
        since."""
        return Census.of(self.snapshot())

    def size(self) -> int:
        """Return the number of ALIVE and TRAINING individuals, which the set-point controls."""
        return self.census().living

    # Reading.

    @abc.abstractmethod
    def read_birth(self, individual: Individual) -> Birth:
        """Return the birth record."""

    @abc.abstractmethod
    def read_result(self, individual: Individual) -> Result:
        """Return the result of the attempt that counts, for an ALIVE or DEAD individual."""

    @abc.abstractmethod
    def weights(self, individual: Individual) -> bytes | None:
        """Return the trained weights, checked against their hash; None if the attempt left none."""

    @abc.abstractmethod
    def inherited_weights(self, individual: Individual) -> tuple[bytes, ...]:
        """Return the weights that a TRAINING individual inherits, checked: one entry per parent that gave weights."""

    @abc.abstractmethod
    def checkpoint(self, individual: Individual) -> Checkpoint | None:
        """Return the furthest undamaged checkpoint of all attempts at a TRAINING individual."""

    @abc.abstractmethod
    def fossils(self) -> Iterator[Fossil]:
        """Yield the records of all collected individuals."""


class Population(PopulationView):
    """A population as its workers see it."""

    who: str
    """The ID of this worker, unique per process and never reused."""

    # Finding work.

    @abc.abstractmethod
    def orphans(self) -> list[Individual]:
        """Return the known TRAINING individuals that may be taken over; cheap enough for every step. These are
        individuals that were handed over, that the caller owns, or whose owner's lease has expired."""

    def garbage(self) -> list[Individual]:
        """Return some individuals that `collect` accepts: DEAD, FAILED, or left by a crashed creator or collector."""
        return [individual for individual in self.snapshot() if individual.state in (State.DEAD, State.FAILED)]

    # Changing.

    @abc.abstractmethod
    def create(self, birth: Birth, *, parents: tuple[Individual, ...] = ()) -> Individual:
        """Create a TRAINING individual owned by the caller. Before it becomes visible it receives the weights of
        `parents`, in order, up to the first parent without any."""

    @abc.abstractmethod
    def save_checkpoint(self, individual: Individual, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint of the caller's attempt."""

    @abc.abstractmethod
    def finish(
        self, individual: Individual, *, fitness: float, metrics: Metrics | None = None, files: NamedData | None = None
    ) -> Individual:
        """Store the result and make the caller's TRAINING individual ALIVE; the fitness must be finite. A training that
        diverged or did not fit into memory is a result too: fitness 0.0, with the reason in `metrics`."""

    @abc.abstractmethod
    def hand_over(self, individual: Individual) -> Individual:
        """Release the caller's TRAINING individual, with its checkpoint, for any worker to take over at once."""

    @abc.abstractmethod
    def take_over(self, individual: Individual) -> Individual:
        """Make an orphan the caller's. Returns it ALIVE if an earlier attempt had left a complete result, FAILED if too
        many attempts ended without progress, and otherwise TRAINING: the caller trains it, from its `checkpoint` if
        any."""

    @abc.abstractmethod
    def end(self, individual: Individual, state: State, why: str, reason: str = "") -> Individual:
        """Move an individual to DEAD, FAILED or QUARANTINED; see `kill`, `fail` and `quarantine`. `why` is one short
        word, stored in the individual; `reason` is a sentence for people, stored in its fossil."""

    def kill(self, individual: Individual, why: str = "lost") -> Individual:
        """Make an ALIVE individual DEAD."""
        return self.end(individual, State.DEAD, why)

    def fail(self, individual: Individual, why: str, reason: str = "") -> Individual:
        """Give up the caller's TRAINING individual for good: it becomes FAILED."""
        return self.end(individual, State.FAILED, why, reason)

    def quarantine(self, individual: Individual, why: str) -> Individual:
        """Set an individual with bad contents aside as QUARANTINED; it is kept as evidence."""
        return self.end(individual, State.QUARANTINED, why)

    @abc.abstractmethod
    def collect(self, individual: Individual) -> None:
        """Archive a DEAD or FAILED individual, then remove it; or remove what a crashed creator or collector left."""

    # The worker itself.

    @abc.abstractmethod
    def heartbeat(self, phase: str, step: int, flops: int = 0) -> None:
        """Show that the caller makes progress. The training loop calls this often, and the worker between steps.
        `flops` is what the caller has executed in its life, finished or not."""

    def invite(self, invitation: bytes | None) -> None:
        """Show other workers how to share the caller's training, or stop showing it. A store without this feature
        ignores it."""
        return

    def invitation(self, individual: Individual) -> bytes | None:
        """Return what the worker that trains this individual shows to the others, if anything."""
        return None

    def close(self) -> None:
        """Release open files."""
        return

    def _require_own(self, individual: Individual) -> None:
        if individual.owner != self.who:
            raise ConcurrencyError(f"Individual {individual.id} is trained by {individual.owner}; take it over first.")
