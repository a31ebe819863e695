"""What a worker did, in order, for dashboards and debugging: never for decisions, and never missed by the protocol.

Everything that must not be lost is in a name or in a record; an event that cannot be written is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from genepool.population.files import Files
from genepool.population.log import Log, read_logs


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
