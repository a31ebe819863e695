"""Append-only logs with one writer each: lines of `<crc32> <json>` that survive a torn end.

A writer never repairs a file: after a failed write or sync it continues in the next one (`archive.log`,
`archive.1.log`, ...), because a failed sync may have dropped earlier data. A reader skips and counts damaged lines.

Each worker has two. Its events are never used for decisions, so one that cannot be written is dropped. Its archive
holds fossils, each synced and read back before the directory that it replaces may be removed.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from genepool.population.directory import names
from genepool.population.directory.files import NOT_A_FILE, Files
from genepool.population.individual import Fossil, Individual, State

_LARGEST_FILE = 64 << 20
_LARGEST_LOG = 1 << 32
_CHUNK = 4 << 20


def in_a_line(document: bytes) -> bytes:
    """Return a JSON document without newlines. JSON strings cannot contain any, so most documents need no change."""
    return msgspec.json.format(document, indent=-1) if b"\n" in document else document


def frame(document: bytes) -> bytes:
    """Return the log line of a document, which must not contain a newline."""
    return b"%08x %b\n" % (zlib.crc32(document), document)


def unframe(line: bytes) -> bytes | None:
    """Return the document of a line without its newline; None if the line is damaged."""
    document = line[9:]
    return document if line[:9] == b"%08x " % zlib.crc32(document) else None


def documents(data: bytes) -> Iterator[bytes | None]:
    """Yield every document in the bytes of a log; None for each damaged line and for an end without a newline."""
    *lines, rest = data.split(b"\n")
    yield from map(unframe, lines)
    if rest:
        yield None


class Log:
    kind: str

    def __init__(self, files: Files, directory: str) -> None:
        self._files, self._directory = files, directory
        self._descriptor: int | None = None
        self._number, self._length = -1, 0

    def append(self, document: bytes, *, lasting: bool) -> None:
        """Append a document; sync a lasting one and read it back. After an OSError nothing is promised about it."""
        line = frame(document)
        if self._descriptor is None or self._length > _LARGEST_FILE:
            self._descriptor = self._next_file()
        try:
            if lasting:
                self._files.write_lasting(self._descriptor, line, self._length)
            else:
                self._files.write_all(self._descriptor, line)
        except OSError:
            self.close()
            raise
        self._length += len(line)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Everything that matters in this file was synced and read back before.
            with contextlib.suppress(OSError):
                self._files.close(descriptor)

    def _next_file(self) -> int:
        self.close()
        self._number, self._length = self._number + 1, 0
        descriptor = self._files.open_log(f"{self._directory}/{names.log_name(self.kind, self._number)}")
        self._files.sync_dir(self._directory)
        return descriptor


def read_logs(files: Files, workers: str, kind: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield every document of one kind of log with its place (`<who>/<file>:<line>`); None if it is damaged."""
    for who in sorted(filter(names.is_who, _names(files, workers))):
        for number in sorted(names.log_numbers(_names(files, f"{workers}/{who}"), kind)):
            name = names.log_name(kind, number)
            try:
                data = files.load(f"{workers}/{who}/{name}", _LARGEST_LOG)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in NOT_A_FILE:
                    raise
                yield f"{who}/{name}:0", None
                continue
            for line, document in enumerate(documents(data), start=1):
                yield f"{who}/{name}:{line}", document


class Place(NamedTuple):
    """The position of a line in a log, so that it can be read again instead of being kept in memory."""

    path: str
    start: int
    length: int

    @property
    def who(self) -> str:
        return self.path.rsplit("/", 2)[1]

    @property
    def kind(self) -> str:
        return names.log_kind(self.path.rpartition("/")[2])

    def __str__(self) -> str:
        return f"{self.who}/{self.path.rpartition('/')[2]}:{self.start}"


class LogTail:
    """Reads logs of some kinds repeatedly: each time only what was added, some megabytes at a time."""

    def __init__(self, files: Files, workers: str, *kinds: str) -> None:
        self._files, self._workers, self._kinds = files, workers, kinds
        self._read: dict[str, int] = {}

    def lines(self) -> Iterator[tuple[Place, bytes]]:
        """Yield every new undamaged document with its place. A line without its end is left for later."""
        for who in sorted(_names(self._files, self._workers)):
            for name in sorted(_names(self._files, f"{self._workers}/{who}")):
                if names.is_log(name, self._kinds):
                    yield from self._more_of(f"{self._workers}/{who}/{name}")

    def bytes_read(self) -> int:
        return sum(self._read.values())

    def _more_of(self, path: str) -> Iterator[tuple[Place, bytes]]:
        chunk = _CHUNK
        while True:
            start = self._read.get(path, 0)
            try:
                data = self._files.load_from(path, start, _LARGEST_LOG, most=chunk)
            except OSError:
                return
            end = data.rfind(b"\n") + 1
            self._read[path] = start + end
            yield from _places(path, start, data[:end])
            if len(data) < chunk or chunk > _LARGEST_FILE:
                return
            if not end:  # a line longer than a chunk
                chunk *= 2


def _places(path: str, start: int, data: bytes) -> Iterator[tuple[Place, bytes]]:
    for line in data.split(b"\n")[:-1]:
        document = unframe(line)
        if document is not None:
            yield Place(path, start, len(line)), document
        start += len(line) + 1


def read_place(files: Files, place: Place) -> bytes | None:
    try:
        return unframe(files.load_from(place.path, place.start, _LARGEST_LOG, most=place.length))
    except OSError:
        return None


def _names(files: Files, path: str) -> list[str]:
    try:
        return files.list(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    time: float
    what: str
    id: str = ""  # the individual that the worker changed; the next three fields describe it after the change
    state: State | None = None
    claim: int = 0
    attempt: str = ""
    place: str = ""  # where a foreign entry was found
    note: str = ""


class EventLog(Log):
    kind = "events"

    def changed(self, what: str, new: Individual) -> None:
        self._add(what=what, id=new.id, state=new.state, claim=new.claim, attempt=new.attempt)

    def found_foreign(self, place: str, note: str) -> None:
        self._add(what="foreign", place=place, note=note)

    def _add(self, **facts: Any) -> None:
        event = Event(time=round(self._files.wall(), 3), **facts)
        with contextlib.suppress(OSError):
            self.append(msgspec.json.encode(event), lasting=False)


def read_events(files: Files, workers: str) -> Iterator[tuple[str, Event]]:
    """Yield the events of all workers, each with the worker's ID, in order per worker; skip damaged lines."""
    decoder = msgspec.json.Decoder(Event)
    for place, document in read_logs(files, workers, "events"):
        with contextlib.suppress(msgspec.MsgspecError):
            if document is not None:
                yield place.partition("/")[0], decoder.decode(document)


class Archive(Log):
    kind = "archive"

    def add(self, fossil: Fossil) -> None:
        """Add a fossil; on return it is as durable as the configured durability promises."""
        # A record may have been re-indented by hand; a document in a log is one line.
        self.append(in_a_line(msgspec.json.encode(fossil)), lasting=True)


class ArchiveReader:
    """Reads all archives, and keeps the places of damaged and contradictory records. Two workers may archive the same
    individual, and a power loss may revive one that then dies again: fossils of one ID with the same birth and result
    count as one, and the later one is kept. Any other pair is a contradiction."""

    def __init__(self, files: Files, workers: str) -> None:
        self._files, self._workers = files, workers
        self.damaged: list[str] = []
        self.contradictions: list[str] = []

    def fossils(self) -> dict[str, Fossil]:
        """Return every fossil by ID, in the order of archiving per worker."""
        found: dict[str, Fossil] = {}
        for place, fossil in self._records():
            known = found.get(fossil.id, fossil)
            if (known.birth, known.result) == (fossil.birth, fossil.result):
                found[fossil.id] = fossil
            else:
                self.contradictions.append(place)
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
