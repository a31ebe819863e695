"""The contract of a population: what any store, ours or a stranger's, promises to the workers that evolve it.

The promise about concurrency, which `genepool.testing.contract` examines:

* Any number of workers, each with a `Population` object of its own, work on one population without talking to each
  other. Any of them may be killed, frozen or added at any moment.
* Every change of state is a compare-and-swap: it names the snapshot it starts from, and either it wins or it raises
  `ConcurrencyError` and has changed nothing. Of several who try to change the same snapshot exactly one wins.
* A change whose outcome is not known at once is looked up. If that fails too, or the disk refuses, `StorageError` is
  raised: the change has happened wholly or not at all, and the next listing tells which. Repeating it is safe: a change
  that the same worker made before either wins again, with nothing changed, or is refused.
* An individual is visible only when it is complete, and what its parents passed on belongs to it from then on: nobody's
  collection of the parent can take it away.
* What `finish` has returned is never lost: the individual is in the population, or its fossil is in the archive.
* Whoever trains may die. Its individual is taken over once its beat has not changed for a whole lease, seen by an
  observer whose own beats got through meanwhile. A result that was complete is adopted, a checkpoint is passed on.
* What is read is checked against its hash. A damaged individual is put into quarantine by the worker that meets it,
  which then drops its step with `ConcurrencyError`; an observer, who changes nothing, gets `DataError`.

One object is for one thread. It trains at most one individual at a time: what it asks about, it does not train.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Iterator, Mapping
from typing import Any

from genepool.errors import ConcurrencyError
from genepool.population.directory import names
from genepool.population.individual import Birth, Census, Checkpoint, Fossil, Individual, Record, Result, State


class PopulationView(abc.ABC):
    """A population as observers see it: nothing here changes anything."""

    # Looking.

    @abc.abstractmethod
    def snapshot(self) -> list[Individual]:
        """Every individual that could be seen, in all states but COLLECTED, ordered by id: a look at everything."""

    @abc.abstractmethod
    def sample(self, rng: random.Random) -> Individual:
        """One TRAINING or ALIVE individual, each equally likely; raises PopulationTooSmallError if there is none."""

    @abc.abstractmethod
    def census(self, *, fresh: bool = False) -> Census:
        """How many there are in each state; a fresh one is counted now, another may be seconds old plus own changes."""

    def size(self) -> int:
        """How many are ALIVE or TRAINING, for the set-point."""
        return self.census().living

    # Reading.

    @abc.abstractmethod
    def read_birth(self, individual: Individual) -> Birth:
        """How it came to be."""

    @abc.abstractmethod
    def read_result(self, individual: Individual) -> Result:
        """What came out of the attempt that counts; for ALIVE and DEAD."""

    @abc.abstractmethod
    def weights(self, individual: Individual) -> bytes | None:
        """The trained weights, checked against their hash; None if the attempt left none or the dead was stripped."""

    @abc.abstractmethod
    def inherited_weights(self, individual: Individual) -> tuple[bytes, ...]:
        """The weights that a TRAINING individual inherits, checked: one entry per parent that gave weights."""

    @abc.abstractmethod
    def checkpoint(self, individual: Individual) -> Checkpoint | None:
        """The furthest undamaged checkpoint of all attempts at a TRAINING individual."""

    @abc.abstractmethod
    def fossils(self) -> Iterator[Fossil]:
        """The records of all that were collected."""

    # Built on the above.

    def records(self) -> Iterator[Record]:
        """Every individual that is or was, with its birth and result: the living first, then the fossils.

        One that changes its state while it is read is looked for again; fossils are read last, so that none is missed
        between the two. What cannot be read is left out.
        """
        told: set[str] = set()
        for _ in range(3):
            for individual in self.snapshot():
                if individual.id in told or individual.state in (State.STAGING, State.QUARANTINED, State.COLLECTED):
                    continue
                try:
                    record = self._record(individual)
                except ConcurrencyError:
                    continue
                told.add(individual.id)
                yield record
        for fossil in self.fossils():
            individual_then = names.parse(fossil.name)
            if fossil.id not in told and individual_then is not None:
                yield Record(individual=individual_then, birth=fossil.birth, result=fossil.result, archived=True)

    def _record(self, individual: Individual) -> Record:
        has_result = individual.state in (State.ALIVE, State.DEAD)
        result = self.read_result(individual) if has_result else None
        return Record(individual=individual, birth=self.read_birth(individual), result=result)


class Population(PopulationView):
    """A population as its workers see it."""

    who: str
    """The name of this worker's incarnation."""

    # Looking after it.

    @abc.abstractmethod
    def orphans(self) -> list[Individual]:
        """TRAINING individuals that may be taken over, as far as known; cheap enough for every step."""

    @abc.abstractmethod
    def abandoned(self, individual: Individual) -> bool:
        """Whether a TRAINING individual may be taken over: free, the caller's own, or its owner's lease is over."""

    @abc.abstractmethod
    def garbage(self) -> list[Individual]:
        """Some that `collect` is for: the dead, the failed, and what crashed creators and collectors left."""

    # Changing.

    @abc.abstractmethod
    def create(self, birth: Birth, *, parents: tuple[Individual, ...] = ()) -> Individual:
        """Create a TRAINING individual owned by the caller.

        Before it becomes visible it receives the weights of `parents`, in order, up to the first parent without any.
        """

    @abc.abstractmethod
    def save_checkpoint(self, individual: Individual, checkpoint: Checkpoint) -> None:
        """Replaces the caller's own checkpoint."""

    @abc.abstractmethod
    def finish(
        self,
        individual: Individual,
        *,
        fitness: float,
        metrics: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> Individual:
        """Stores the result and makes the caller's TRAINING individual ALIVE; the fitness must be finite.

        A training that diverged or did not fit is a result too: fitness 0.0 and the reason in the metrics.
        """

    @abc.abstractmethod
    def fail(self, individual: Individual, why: str, reason: str = "") -> Individual:
        """Gives the caller's TRAINING individual up for good: a short word for the name, a sentence for people."""

    @abc.abstractmethod
    def hand_over(self, individual: Individual) -> Individual:
        """Leaves the caller's TRAINING individual to anybody, with its checkpoint: the caller has been told to stop."""

    @abc.abstractmethod
    def take_over(self, individual: Individual) -> Individual:
        """Makes an abandoned individual the caller's.

        Comes back ALIVE if an earlier attempt had left a complete result, FAILED if it has cost too many attempts, else
        TRAINING: the caller trains it, from its `checkpoint` if there is one.
        """

    @abc.abstractmethod
    def kill(self, individual: Individual, why: str = "lost") -> Individual:
        """ALIVE to DEAD."""

    @abc.abstractmethod
    def strip(self, individual: Individual) -> None:
        """Frees the space of a DEAD or FAILED individual's weights; its record stays."""

    @abc.abstractmethod
    def collect(self, individual: Individual) -> None:
        """Archives a DEAD or FAILED individual, then removes it; removes what crashed creators and collectors left."""

    @abc.abstractmethod
    def quarantine(self, individual: Individual, why: str) -> Individual:
        """Puts an individual with bad contents aside; it is kept as evidence."""

    @abc.abstractmethod
    def heartbeat(self, phase: str, step: int) -> None:
        """Shows that the caller gets on; called by the training loop itself, often, and between steps."""

    @abc.abstractmethod
    def close(self) -> None:
        """Gives back what the operating system lent."""
