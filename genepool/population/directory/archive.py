"""Two logs per worker: the events of its run, and the archive of the dead it collected.

What a worker did, in order, for dashboards and debugging: never for decisions, and never missed by the protocol.

Everything that must not be lost is in a name or in a record; an event that cannot be written is dropped.

The archive of the dead: one log a worker, synced and read back before the directory that it replaces may go.

Two collectors may archive the same individual, and after a power loss one that died may live and die again; records
of one id that agree about its birth and its result are one fossil, the later one. Others are a violation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from genepool.population.directory.files import Files
from genepool.population.directory.log import Log, in_a_line, read_logs
from genepool.population.individual import Fossil


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a worker's diary."""

    time: float
    what: str
    id: str = ""
    name: str = ""
    """The individual's new name, or the foreign entry."""
    note: str = ""


class EventLog:
    """The diary of one worker."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._log = Log(files, directory, "events")
        self._encode = msgspec.json.Encoder().encode

    def note(self, what: str, *, identity: str = "", name: str = "", note: str = "") -> None:
        """Writes a line if that is possible."""
        event = Event(time=round(self._files.wall(), 3), what=what, id=identity, name=name, note=note)
        try:
            self._log.append(self._encode(event), lasting=False)
        except OSError:
            return

    def close(self) -> None:
        """Gives the file back."""
        self._log.close()


def read_events(files: Files, workers: str) -> Iterator[tuple[str, Event]]:
    """The events of all workers, each worker's in order, with the worker's name; damaged lines are left out."""
    decoder = msgspec.json.Decoder(Event)
    for place, document in read_logs(files, workers, "events"):
        if document is None:
            continue
        with contextlib.suppress(msgspec.MsgspecError):
            yield place.partition("/")[0], decoder.decode(document)


class Archive:
    """The writing end of one worker's archive."""

    def __init__(self, files: Files, directory: str) -> None:
        self._log = Log(files, directory, "archive")

    def add(self, fossil: Fossil) -> None:
        """Adds a record; when this returns it is as durable as the level of durability promises."""
        # A stranger may have re-indented a file; a document is one line.
        self._log.append(in_a_line(msgspec.json.encode(fossil)), lasting=True)

    def close(self) -> None:
        """Gives the file back."""
        self._log.close()


class Excavation:
    """Reads all archives; counts what is damaged and keeps the places of records that contradict each other."""

    def __init__(self, files: Files, workers: str) -> None:
        self._files = files
        self._workers = workers
        self.damaged: list[str] = []
        self.contradictions: list[str] = []

    def fossils(self) -> dict[str, Fossil]:
        """Every fossil by id, in the order of their archiving per worker."""
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
