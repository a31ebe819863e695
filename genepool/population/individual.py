"""Individuals and their records: frozen values, and the only rules by which one state follows another.

    (nothing) --create--> STAGING --publish--> TRAINING --finish--> ALIVE --kill--> DEAD --collect--> COLLECTED
                                               |  ^  |                                                ^
                                     take over +--+  +--fail--> FAILED -------------------------------+

An individual whose contents turn out to be damaged becomes QUARANTINED and stays as evidence. No arrow leads back, so
no snapshot ever recurs. The paper has TRAINING, ALIVE and DEAD; crashes make the other states necessary.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

FREE = "free0000"  # the owner of a TRAINING individual that was handed over: any worker may take it over at once

STRIKES = 3
"""The number of consecutive attempts without progress after which an individual FAILS: it may be what kills workers."""


class State(enum.Enum):
    """A stage in an individual's life; the value is the letter that stands for it."""

    STAGING = "t"
    TRAINING = "T"
    ALIVE = "A"
    DEAD = "D"
    FAILED = "F"
    QUARANTINED = "Q"
    COLLECTED = "X"


_ENDS = {
    State.DEAD: (State.ALIVE,),
    State.FAILED: (State.TRAINING,),
    State.QUARANTINED: (State.TRAINING, State.ALIVE, State.DEAD, State.FAILED),
}
"""The states in which an individual may end, each with the states that it may follow."""


class Individual(msgspec.Struct, frozen=True, kw_only=True, dict=True, omit_defaults=True):
    """A snapshot of one individual, true at the moment it was taken. Every change names the snapshot it starts from."""

    id: str
    state: State
    claim: int = 0
    """A counter that grows with every entry into TRAINING; 0 in the states that do not need it."""
    owner: str = ""
    """The worker that trains it or, in other states, brought it there; an ALIVE individual has none."""
    strikes: int = 0
    """The number of consecutive attempts without progress."""
    attempt: str = ""
    """TRAINING: the owner's attempt. ALIVE and DEAD: the attempt whose result counts."""
    fitness: float | None = None
    why: str = ""
    """A short word that says why it is DEAD, FAILED or QUARANTINED."""

    @property
    def living(self) -> bool:
        """Whether pairs are drawn from it and the set-point counts it."""
        return self.state in (State.TRAINING, State.ALIVE)

    def published(self) -> Individual:
        self._require(State.STAGING)
        return self._training(claim=1, strikes=0, owner=self.owner)

    def taken_over(self, who: str, *, progressed: bool) -> Individual:
        """TRAINING to TRAINING under a new owner; a strike is added unless the old owner progressed or handed over."""
        self._require(State.TRAINING)
        forgiven = progressed or self.owner == FREE
        # A name has one digit for strikes. The cap is exceeded only if workers crash before they give it up.
        strikes = 0 if forgiven else min(self.strikes + 1, 9)
        return self._training(claim=self.claim + 1, strikes=strikes, owner=who)

    def handed_over(self) -> Individual:
        self._require(State.TRAINING)
        return self._training(claim=self.claim + 1, strikes=0, owner=FREE)

    def finished(self, attempt: str, fitness: float) -> Individual:
        self._require(State.TRAINING)
        return Individual(id=self.id, state=State.ALIVE, claim=self.claim, attempt=attempt, fitness=fitness)

    def ended(self, state: State, who: str, why: str) -> Individual:
        """ALIVE to DEAD, TRAINING to FAILED, or any state with readable contents to QUARANTINED."""
        self._require(*_ENDS[state])
        if state is State.DEAD:
            return msgspec.structs.replace(self, state=state, owner=who, why=why)
        claim = self.claim if state is State.FAILED else 0
        return Individual(id=self.id, state=state, claim=claim, owner=who, why=why)

    def collected(self, who: str) -> Individual:
        """DEAD, FAILED, or left by a crashed creator or collector, to COLLECTED."""
        self._require(State.DEAD, State.FAILED, State.STAGING, State.COLLECTED)
        return Individual(id=self.id, state=State.COLLECTED, owner=who)

    def _training(self, *, claim: int, strikes: int, owner: str) -> Individual:
        attempt = attempt_id(claim, owner)
        return Individual(id=self.id, state=State.TRAINING, claim=claim, strikes=strikes, owner=owner, attempt=attempt)

    def _require(self, *states: State) -> None:
        if self.state not in states:
            wanted = " or ".join(state.name for state in states)
            raise ValueError(f"Individual {self.id} is {self.state.name}; this step is for one that is {wanted}.")


def attempt_id(claim: int, owner: str) -> str:
    """Return the ID of a training attempt; only the worker that holds the claim uses it."""
    return f"{claim}-{owner}"


def claim_of(attempt: str) -> int:
    return int(attempt.partition("-")[0])


def worker_of(attempt: str) -> str:
    return attempt.partition("-")[2]


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """How an individual came to be. The population fills in the last four fields."""

    dna: msgspec.Raw
    """The complete DNA as JSON text; opaque to the population."""
    parents: tuple[str, ...] = ()
    mutations: tuple[str, ...] = ()
    mutation_seed: int
    training_seed: int
    settings_version: int = 1
    training_budget: dict[str, Any] = {}
    """The training budget of this individual, if it differs from the settings; opaque here."""
    origin: dict[str, Any] = {}
    """For an immigrant: its former population, its ID there and its lineage; opaque here."""
    lacking: tuple[str, ...] = ()
    """Mutations that had odds but were left out of the draw because the creator did not have them."""
    id: str = ""
    experiment: str = ""
    created: float = 0.0
    """Wall time on the creator's host: for people, never for decisions."""
    inherits: tuple[str, ...] = ()
    """SHA-256 of the weights that each parent gave, in the order of `parents`; shorter if some gave none."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a result promises about one file of its attempt."""

    sha256: str
    size: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the attempt that counts. It binds its files by hash, so no mixture can pass for a result."""

    id: str
    attempt: str
    fitness: float
    metrics: dict[str, Any]
    files: dict[str, StoredFile]
    finished: float


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A training that can be resumed: the step it had reached and opaque bytes."""

    step: int
    data: bytes


class Fossil(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a collected individual, complete without the directory that it came from."""

    individual: Individual  # the last snapshot before it was collected: it says who ended the individual and why
    birth: Birth
    result: Result | None = None
    reason: str = ""  # a sentence that says why a FAILED individual failed

    @property
    def id(self) -> str:
        return self.birth.id


class Census(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The number of individuals in each state, and of entries that are not individuals at all."""

    training: int = 0
    alive: int = 0
    dead: int = 0
    failed: int = 0
    quarantined: int = 0
    foreign: int = 0

    @property
    def living(self) -> int:
        return self.training + self.alive

    @classmethod
    def of(cls, individuals: Iterable[Individual], *, foreign: int = 0) -> Census:
        return cls.counted(collections.Counter(individual.state for individual in individuals), foreign=foreign)

    @classmethod
    def counted(cls, counts: Mapping[State, int], *, foreign: int = 0) -> Census:
        return cls(
            training=counts[State.TRAINING],
            alive=counts[State.ALIVE],
            dead=counts[State.DEAD],
            failed=counts[State.FAILED],
            quarantined=counts[State.QUARANTINED],
            foreign=foreign,
        )
