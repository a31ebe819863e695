"""Reads an experiment directory incrementally, with nothing but `open` and `listdir`; no record is read twice.

Living individuals are read from their directories, dead ones from the archives, of which only the new part is read.
"""

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from genepool.errors import ConcurrencyError, DataError, StorageError
from genepool.population import Birth, DirectoryView, Event, Fossil, Individual, Place, Result, State, StoredFile, Sweep

LATEST_EVENTS = 200
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_TRANSIENT = frozenset({State.STAGING, State.COLLECTED})
_FINISHED = frozenset({State.ALIVE, State.DEAD})


class BriefMetrics(msgspec.Struct):
    """The metrics that become columns."""

    accuracy: float | None = None
    reason: str | None = None
    parameters: float = 0
    flops: int | float = 0
    flops_training: int | float = 0
    resumed: int = 0
    seconds: float = 0
    stepping: float = 0


class BriefBirth(msgspec.Struct):
    """The fields of a birth that become columns."""

    id: str
    dna: msgspec.Raw
    parents: tuple[str, ...] = ()
    mutations: tuple[str, ...] = ()
    settings_version: int = 1
    created: float = 0.0


class BriefResult(msgspec.Struct):
    """The fields of a result that become columns."""

    attempt: str
    fitness: float
    metrics: BriefMetrics
    finished: float
    files: dict[str, StoredFile] = {}


class BriefFossil(msgspec.Struct):
    """A fossil decoded only as far as the table needs it, which is several times as fast as decoding all of it."""

    individual: Individual
    birth: BriefBirth
    result: BriefResult | None = None


AnyFossil = Fossil | BriefFossil


class Seen(NamedTuple):
    """One individual that is new or has changed, with the records that were not read before."""

    individual: Individual
    birth: Birth | BriefBirth | None = None
    result: Result | BriefResult | None = None
    place: Place | None = None  # where its record is, if that is in an archive


class Reader:
    """Returns the changes since the previous call. Without `births` only results are read."""

    def __init__(
        self, view: DirectoryView, *, fossil: type[AnyFossil] = BriefFossil, births: bool = True, events: bool = False
    ) -> None:
        self._view, self._births = view, births
        self._fossils: msgspec.json.Decoder[AnyFossil] = msgspec.json.Decoder(fossil)
        self._tail = view.log_tail("archive", *(["events"] if events else []))
        self._listed: dict[tuple[int, str], Individual] = {}
        # Individuals with nothing left to read as long as their names do not change.
        self._up_to_date: dict[str, Individual] = {}
        self._latest: deque[tuple[str, bytes]] = deque(maxlen=LATEST_EVENTS)
        self.sweep = Sweep(individuals=[], foreign=[])
        self.damaged: set[str] = set()  # IDs of individuals, and places in logs, that could not be read

    def changes(self) -> Iterator[Seen]:
        """Read the archives last: an individual that is collected in between is found there, so none is missed."""
        self.sweep, self._listed = self._view.sweep_again(self._listed)
        before, self._up_to_date = self._up_to_date, {}
        for individual in self.sweep.individuals:
            if individual.state in _TRANSIENT:
                continue  # nothing of it was read, so it must not count as known later
            known = before.get(individual.id)
            if known is not individual:
                seen = self._read(individual, known)
                if seen is None:
                    continue
                yield seen
            self._up_to_date[individual.id] = individual
        yield from self._read_logs()

    def _read(self, individual: Individual, known: Individual | None) -> Seen | None:
        """Read what is missing; None if the individual changed meanwhile (the next pass finds it) or is damaged."""
        birth = result = None
        try:
            if individual.state is not State.QUARANTINED:
                birth = self._view.read_birth(individual) if known is None and self._births else None
                is_new = known is None or known.state not in _FINISHED
                result = self._view.read_result(individual) if individual.state in _FINISHED and is_new else None
        except (ConcurrencyError, StorageError):
            return None
        except (DataError, *UNREADABLE):
            self.damaged.add(individual.id)
            return None
        self.damaged.discard(individual.id)
        return Seen(individual, birth, result)

    def _read_logs(self) -> Iterator[Seen]:
        for place, document in self._tail.lines():
            if place.kind != "archive":
                self._latest.append((place.who, document))
                continue
            try:
                fossil = self._fossils.decode(document)
                if fossil.individual.id != fossil.birth.id:
                    raise ValueError("the individual and the birth record differ")
            except UNREADABLE:
                self.damaged.add(str(place))
                continue
            yield Seen(fossil.individual, fossil.birth, fossil.result, place)

    def bytes_of_logs(self) -> int:
        """The size of the archives and event logs on the disk."""
        return self._tail.bytes_read()

    def events(self) -> list[tuple[str, Event]]:
        """The latest entries of the workers' event logs with the workers' names, newest first."""
        decoder, found = msgspec.json.Decoder(Event), []
        for who, document in list(self._latest):
            with contextlib.suppress(*UNREADABLE):
                found.append((who, decoder.decode(document)))
        return sorted(found, key=lambda pair: -pair[1].time)
