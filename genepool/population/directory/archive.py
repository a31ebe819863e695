"""Two logs per worker: the events of its run, and the archive of the individuals that it collected.

Events are for dashboards and debugging, never for decisions. Everything that must not be lost is in a name or a record,
so an event that cannot be written is dropped.

A fossil is synced and read back before the directory that it replaces may be removed. Two workers may archive the same
individual, and a power loss may revive an individual that then dies again: fossils of one ID with the same birth and
result count as one, and the later one is kept. Any other pair is a contradiction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from genepool.population.directory.files import Files
from genepool.population.directory.log import Log, in_a_line, read_logs
from genepool.population.individual import Fossil, Individual, State


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a worker's event log."""

    time: float
    what: str
    id: str = ""
    """The individual that the worker changed; the next three fields describe it after the change."""
    state: State | None = None
    claim: int = 0
    attempt: str = ""
    place: str = ""
    """Where a foreign entry was found."""
    note: str = ""


class EventLog(Log):
    """The event log of one worker, for writing."""

    kind = "events"

    def changed(self, what: str, new: Individual) -> None:
        self._add(Event(time=self._now(), what=what, id=new.id, state=new.state, claim=new.claim, attempt=new.attempt))

    def found_foreign(self, place: str, note: str) -> None:
        """Record an entry that is not an individual."""
        self._add(Event(time=self._now(), what="foreign", place=place, note=note))

    def _now(self) -> float:
        return round(self._files.wall(), 3)

    def _add(self, event: Event) -> None:
        with contextlib.suppress(OSError):
            self.append(msgspec.json.encode(event), lasting=False)


def read_events(files: Files, workers: str) -> Iterator[tuple[str, Event]]:
    """Yield the events of all workers, each with the worker's ID, in order per worker; skip damaged lines."""
    decoder = msgspec.json.Decoder(Event)
    for place, document in read_logs(files, workers, "events"):
        if document is None:
            continue
        with contextlib.suppress(msgspec.MsgspecError):
            yield place.partition("/")[0], decoder.decode(document)


class Archive(Log):
    """The archive of one worker, for writing."""

    kind = "archive"

    def add(self, fossil: Fossil) -> None:
        """Add a fossil; on return it is as durable as the configured durability promises."""
        # A record may have been re-indented by hand; a document in a log is one line.
        self.append(in_a_line(msgspec.json.encode(fossil)), lasting=True)


class ArchiveReader:
    """Reads all archives, and keeps the places of damaged and contradictory records."""

    def __init__(self, files: Files, workers: str) -> None:
        self._files, self._workers = files, workers
        self.damaged: list[str] = []
        self.contradictions: list[str] = []

    def fossils(self) -> dict[str, Fossil]:
        """Return every fossil by ID, in the order of archiving per worker."""
        found: dict[str, Fossil] = {}
        for place, fossil in self._records():
            known = found.get(fossil.id)
            if known is not None and (known.birth != fossil.birth or known.result != fossil.result):
                self.contradictions.append(place)
                continue
            found[fossil.id] = fossil
        return found

    def _records(self) -> Iterator[tuple[str, Fossil]]:
        decoder = msgspec.json.Decoder(Fossil)
        for place, document in read_logs(self._files, self._workers, "archive"):
            try:
                if document is None:
                    raise ValueError("a torn or damaged line")
                yield place, decoder.decode(document)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                self.damaged.append(place)
