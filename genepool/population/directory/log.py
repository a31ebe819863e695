"""Append-only logs with one writer each: `<crc32> <json>` lines that survive a torn end.

A writer never mends a file: after a failed write or sync it goes on in the next one (`archive.log`, `archive.1.log`,
...), since a failed sync may have dropped what was written before it. A reader skips and counts what does not add up.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from genepool.population.directory import names
from genepool.population.directory.files import NOT_A_FILE, Files

_LARGEST_FILE = 64 << 20
_LARGEST_LOG = 1 << 32
_CHUNK = 4 << 20


def in_a_line(document: bytes) -> bytes:
    """A JSON document without newlines; texts in it cannot hold any, so most documents are as they should be."""
    return msgspec.json.format(document, indent=-1) if b"\n" in document else document


def frame(document: bytes) -> bytes:
    """One line of a log; the document must not hold a newline."""
    return b"%08x %b\n" % (zlib.crc32(document), document)


def unframe(line: bytes) -> bytes | None:
    """The document of one line without its newline, or None if the line is damaged."""
    document = line[9:]
    return document if line[:9] == b"%08x " % zlib.crc32(document) else None


def documents(data: bytes) -> Iterator[bytes | None]:
    """Every document in the bytes of a log; None for each damaged line, and for an end that has no newline."""
    *lines, rest = data.split(b"\n")
    for line in lines:
        yield unframe(line)
    if rest:
        yield None


class Log:
    """The writing end of one log."""

    def __init__(self, files: Files, directory: str, kind: str) -> None:
        self._files = files
        self._directory = directory
        self._kind = kind
        self._descriptor: int | None = None
        self._number = -1
        self._length = 0

    def append(self, document: bytes, *, lasting: bool) -> None:
        """Adds a document; a lasting one is synced and read back. After an OSError nothing is promised about it."""
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
        """Ends the current file; the next document begins another."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Whatever mattered in this file was synced and read back before this.
            with contextlib.suppress(OSError):
                self._files.close(descriptor)

    @property
    def _path(self) -> str:
        return f"{self._directory}/{log_name(self._kind, self._number)}"

    def _next_file(self) -> int:
        self.close()
        self._number += 1
        self._length = 0
        descriptor = self._files.open_log(self._path)
        self._files.sync_dir(self._directory)
        return descriptor


def log_name(kind: str, number: int) -> str:
    """The file of a log: `archive.log`, then `archive.1.log` and so on."""
    return f"{kind}.log" if number == 0 else f"{kind}.{number}.log"


def read_logs(files: Files, workers: str, kind: str) -> Iterator[tuple[str, bytes | None]]:
    """Every document of every worker's logs of a kind with its place (`<who>/<file>:<line>`), None where damaged."""
    for who in sorted(filter(names.is_who, _names(files, workers))):
        for number in sorted(_numbers(_names(files, f"{workers}/{who}"), kind)):
            name = log_name(kind, number)
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


def _numbers(names: list[str], kind: str) -> Iterator[int]:
    pattern = re.compile(rf"{kind}(?:[.]([1-9][0-9]{{0,8}}))?[.]log", re.ASCII)
    for name in names:
        if found := pattern.fullmatch(name):
            yield int(found[1] or 0)


class Place(NamedTuple):
    """Where a line of a log stands, so that it can be read again without keeping it."""

    path: str
    start: int
    length: int


class LogTail:
    """Reads logs of some kinds again and again, each time only what was added, some megabytes at a time."""

    def __init__(self, files: Files, workers: str, *kinds: str) -> None:
        self._files, self._workers = files, workers
        self._pattern = _pattern("|".join(kinds))
        self._read: dict[str, int] = {}

    def more(self) -> Iterator[bytes]:
        """Every whole, undamaged document that was not there before. A line without its end is left for later."""
        return (document for _, document in self.lines())

    def lines(self) -> Iterator[tuple[Place, bytes]]:
        """The same, each with its place."""
        for who in sorted(_names(self._files, self._workers)):
            for name in sorted(_names(self._files, f"{self._workers}/{who}")):
                if self._pattern.fullmatch(name):
                    yield from self._more_of(f"{self._workers}/{who}/{name}")

    def bytes_read(self) -> int:
        """The length of all logs, as far as they were read."""
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
    """The document at a place; None if that is not what stands there any more."""
    try:
        return unframe(files.load_from(place.path, place.start, _LARGEST_LOG, most=place.length))
    except OSError:
        return None


def _pattern(kind: str) -> re.Pattern[str]:
    return re.compile(rf"({kind})([.][1-9][0-9]*)?[.]log", re.ASCII)


def _names(files: Files, path: str) -> list[str]:
    try:
        return files.list(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
