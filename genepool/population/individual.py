"""What a population tells about its individuals: frozen values, and the only rules by which one state follows another.

    (nothing) --create--> STAGING --publish--> TRAINING --finish--> ALIVE --kill--> DEAD --collect--> COLLECTED
                                               |  ^  |                                                ^
                                     take over +--+  +--fail--> FAILED -------------------------------+

Anything whose contents turn out to be damaged becomes QUARANTINED and stays as evidence. No arrow leads back, so no
name is ever used twice. Section "Evolutionary Algorithm" of the paper has TRAINING, ALIVE and DEAD; the others are what
crashes make necessary.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

FREE = "free0000"
"""The owner of a TRAINING individual that was handed over: anybody may take it at once."""

STRIKES = 3
"""After so many attempts in a row without progress an individual has FAILED: it may be what kills workers."""


class State(enum.Enum):
    """Where an individual is in its life; the value is the first letter of its name."""

    STAGING = "t"
    TRAINING = "T"
    ALIVE = "A"
    DEAD = "D"
    FAILED = "F"
    QUARANTINED = "Q"
    COLLECTED = "X"


LIVING = frozenset({State.TRAINING, State.ALIVE})
"""The states that a pair is drawn from and that the set-point counts."""


class Individual(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A snapshot of one individual, true at the moment it was taken. Every change names the snapshot it starts from."""

    id: str
    state: State
    claim: int = 0
    """Grows at every entry into TRAINING; 0 in the states whose names do not carry it."""
    owner: str = ""
    """Who brought it into this state and, while TRAINING, who trains it; nobody owns what is ALIVE."""
    strikes: int = 0
    """Attempts in a row that ended without progress."""
    attempt: str = ""
    """TRAINING: the owner's attempt; ALIVE and DEAD: the attempt whose result counts."""
    fitness: float | None = None
    why: str = ""
    """A short word for why it is DEAD, FAILED or QUARANTINED."""

    def published(self) -> Individual:
        """STAGING to TRAINING, by its creator."""
        self._require(State.STAGING)
        return self._training(claim=1, strikes=0, owner=self.owner)

    def taken_over(self, who: str, *, progressed: bool) -> Individual:
        """TRAINING to TRAINING under a new owner; one more strike unless the old one got on or handed it over."""
        self._require(State.TRAINING)
        forgiven = progressed or self.owner == FREE
        # A name has one digit for strikes; more than the cap only happens when takers crash before they give it up.
        strikes = 0 if forgiven else min(self.strikes + 1, 9)
        return self._training(claim=self.claim + 1, strikes=strikes, owner=who)

    def handed_over(self) -> Individual:
        """TRAINING to TRAINING that is free for anybody."""
        self._require(State.TRAINING)
        return self._training(claim=self.claim + 1, strikes=0, owner=FREE)

    def finished(self, attempt: str, fitness: float) -> Individual:
        """TRAINING to ALIVE, by the attempt that counts from now on."""
        self._require(State.TRAINING)
        return Individual(id=self.id, state=State.ALIVE, claim=self.claim, attempt=attempt, fitness=fitness)

    def failed(self, who: str, why: str) -> Individual:
        """TRAINING to FAILED."""
        self._require(State.TRAINING)
        return Individual(id=self.id, state=State.FAILED, claim=self.claim, owner=who, why=why)

    def killed(self, who: str, why: str) -> Individual:
        """ALIVE to DEAD."""
        self._require(State.ALIVE)
        return msgspec.structs.replace(self, state=State.DEAD, owner=who, why=why)

    def quarantined(self, who: str, why: str) -> Individual:
        """From any state that has readable contents to QUARANTINED."""
        self._require(State.TRAINING, State.ALIVE, State.DEAD, State.FAILED)
        return Individual(id=self.id, state=State.QUARANTINED, owner=who, why=why)

    def collected(self, who: str) -> Individual:
        """From what nobody needs any more to COLLECTED."""
        self._require(State.DEAD, State.FAILED, State.STAGING, State.COLLECTED)
        return Individual(id=self.id, state=State.COLLECTED, owner=who)

    def _training(self, *, claim: int, strikes: int, owner: str) -> Individual:
        return Individual(
            id=self.id, state=State.TRAINING, claim=claim, strikes=strikes, owner=owner, attempt=f"{claim}-{owner}"
        )

    def _require(self, *states: State) -> None:
        if self.state not in states:
            wanted = " or ".join(state.name for state in states)
            raise ValueError(f"Individual {self.id} is {self.state.name}; this step is for one that is {wanted}.")


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """How an individual came to be. The last five fields are filled in by the population that it is born into."""

    dna: msgspec.Raw
    """The complete DNA as JSON text; the population never looks inside."""
    parents: tuple[str, ...] = ()
    mutations: tuple[str, ...] = ()
    mutation_seed: int
    training_seed: int
    settings_version: int = 1
    training_budget: dict[str, Any] = {}
    """What the training of this individual gets if it differs from the settings; opaque here."""
    origin: dict[str, Any] = {}
    """Of one that came from another population: which, who it was there, and its lineage; opaque here."""
    lacking: tuple[str, ...] = ()
    """Mutations that had odds, but that its maker did not have and left out of the draw."""
    id: str = ""
    experiment: str = ""
    created: float = 0.0
    """Wall time of the creator's host: for people, never for decisions."""
    inherits: tuple[str, ...] = ()
    """SHA-256 of the weights that each parent gave, in the order of `parents`; shorter if some gave none."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a result promises about one file of its attempt."""

    sha256: str
    size: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of the attempt that counts; it binds its files by hash, so no mixture can pass for a result."""

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
    """The record of the dead, complete without the directory that it came from."""

    name: str
    """The last name it had while it could be read: id, epoch, attempt, fitness, who ended it and why."""
    birth: Birth
    result: Result | None = None
    reason: str = ""
    """Of the failed: the sentence that says why."""

    @property
    def id(self) -> str:
        """The individual's id."""
        return self.birth.id


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One row for readers: an individual that is in the population, or was."""

    individual: Individual
    birth: Birth
    result: Result | None = None
    archived: bool = False


class Census(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many there are in each state, and how many entries are not individuals at all."""

    training: int = 0
    alive: int = 0
    dead: int = 0
    failed: int = 0
    quarantined: int = 0
    foreign: int = 0

    @property
    def living(self) -> int:
        """What the set-point is compared with."""
        return self.training + self.alive
