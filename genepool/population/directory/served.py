"""A population's files on another machine: the same port, with each call carried out by a server of the directory.

If an answer is lost, calls that only read are repeated, and all others raise EIO, after which the store finds out what
happened, as on a network file system. The server keeps no state, so it may be restarted at any moment. Every call is a
round trip, so calls that belong together are one, and lines of event logs, which may be lost, travel with the next.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from genepool.errors import SettingsError
from genepool.population.directory.files import Files

LARGEST_TRANSFER = 1 << 30
"""The largest transfer in bytes; it has room for the weights and momentum of 100 million parameters."""
TRIES = 5


class Answer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The outcome of a call: a value, or the number and the words of an OSError."""

    value: Any = None
    error: int = 0
    words: str = ""


class AnswerLost(Exception):  # noqa: N818 - an event, not an error
    """The connection was lost before the answer; the call may or may not have been carried out."""


LogLines = Sequence[tuple[str, bytes]]  # paths, and the lines to append there
Send = Callable[[str, tuple[Any, ...], bool, LogLines], Answer]
"""Sends a call's name, arguments and durability to the server, with lines to append first. It waits for a server that
is gone, and raises AnswerLost if the server goes away during the call."""

LOOKING = {"list", "list_each", "load", "load_from", "free_bytes"}
CHANGING = {
    *("mkdir", "rename", "link", "unlink", "rmdir", "remove", "clear", "remove_tree", "spread"),
    *("save", "overwrite", "begin_log", "append", "append_lasting", "fsync_dir"),
}


class FileServer:
    """Carries out calls, below one directory only."""

    def __init__(self, root: str, files: Files | None = None) -> None:
        files = files or Files()
        self._root = root.rstrip("/")
        self._files = {True: files.at("safe"), False: files.at("fast")}

    def do(self, name: str, arguments: tuple[Any, ...], safe: bool = True, lines: LogLines = ()) -> Answer:
        """Carry out one call; refuse any that is not in the two lists or leads out of the directory."""
        for line in lines:
            self._do("append", line, safe)
        return self._do(name, arguments, safe)

    def _do(self, name: str, arguments: tuple[Any, ...], safe: bool) -> Answer:
        if name not in LOOKING | CHANGING:
            return Answer(error=errno.ENOSYS, words=f"there is no call '{name}'")
        try:
            self._check(arguments)
            own = getattr(self, f"_{name}", None)
            value = own(self._files[safe], *arguments) if own else getattr(self._files[safe], name)(*arguments)
        except OSError as error:
            return Answer(error=error.errno or errno.EIO, words=error.strerror or str(error))
        return Answer(value=value)

    def _check(self, arguments: tuple[Any, ...]) -> None:
        texts = [each for each in arguments if isinstance(each, str)]
        for path in itertools.chain(texts, *(each for each in arguments if isinstance(each, list))):
            inside = path == self._root or path.startswith(f"{self._root}/")
            if not inside or ".." in path.split("/"):
                raise PermissionError(errno.EACCES, f"'{path}' is not below {self._root}")

    @staticmethod
    def _list_each(files: Files, paths: Sequence[str]) -> list[Sequence[str]]:
        return list(files.list_each(paths))

    @staticmethod
    def _begin_log(files: Files, path: str) -> None:
        files.close(files.open_log(path))

    @staticmethod
    def _append_lasting(files: Files, path: str, data: bytes, at: int) -> None:
        descriptor = files.reopen_log(path)
        try:
            files.write_lasting(descriptor, data, at)
        finally:
            files.close(descriptor)


def _forwarded(way: str, name: str) -> Any:
    return lambda self, *arguments: getattr(self, way)(name, *arguments)


class ServedFiles(Files):
    """The files of a directory that a server has, for one worker; clocks and random numbers are local."""

    def __init__(self, send: Send, **kinds: Any) -> None:
        super().__init__(**kinds)
        self._send = send
        self._logs: dict[int, str] = {}
        self._numbers = itertools.count()
        self._waiting: list[tuple[str, bytes]] = []

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        lines = [*self._waiting]
        self._waiting.clear()  # sent once: if the answer is lost, they may have been written
        answer = self._send(name, arguments, self.safe, lines)
        if answer.error:
            raise OSError(answer.error, answer.words)
        return answer.value

    def _look(self, name: str, *arguments: Any) -> Any:
        for _ in range(TRIES):
            try:
                return self._call(name, arguments)
            except AnswerLost:
                continue
        raise OSError(errno.EIO, "the connection to the population server was lost repeatedly")

    def _change(self, name: str, *arguments: Any) -> Any:
        try:
            return self._call(name, arguments)
        except AnswerLost as error:
            raise OSError(errno.EIO, "the answer of the population server was lost") from error

    list, free_bytes = (_forwarded("_look", name) for name in ("list", "free_bytes"))
    mkdir, rename, link, unlink = (_forwarded("_change", name) for name in ("mkdir", "rename", "link", "unlink"))
    rmdir, remove, remove_tree = (_forwarded("_change", name) for name in ("rmdir", "remove", "remove_tree"))
    fsync_dir, spread = (_forwarded("_change", name) for name in ("fsync_dir", "spread"))

    def list_each(self, paths: Sequence[str]) -> Any:
        return self._look("list_each", [*paths])

    def clear(self, path: str, inside: Sequence[str]) -> Any:
        return self._change("clear", path, [*inside])

    def save(self, path: str, data: bytes) -> None:
        self._change("save", path, _bounded(data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._change("overwrite", path, _bounded(data))

    def load(self, path: str, limit: int) -> bytes:
        try:
            return bytes(self._look("load", path, min(limit, LARGEST_TRANSFER)))
        except OSError as error:
            if error.errno == errno.EFBIG and limit > LARGEST_TRANSFER:
                raise _too_large(path) from error
            raise

    def load_from(self, path: str, start: int, limit: int, *, most: int = LARGEST_TRANSFER) -> bytes:
        return bytes(self._look("load_from", path, start, limit))[:most]

    # Logs: a descriptor here is a local number, since one of the server's would not outlive it.

    def open_log(self, path: str) -> int:
        self._change("begin_log", path)
        number = next(self._numbers)
        self._logs[number] = path
        return number

    def write_all(self, descriptor: int, data: bytes) -> None:
        self._waiting.append((self._logs[descriptor], data))

    def write_lasting(self, descriptor: int, data: bytes, at: int) -> None:
        self._change("append_lasting", self._logs[descriptor], data, at)

    def close(self, descriptor: int) -> None:
        self._logs.pop(descriptor, None)
        if self._waiting:
            self._change("append", *self._waiting.pop())


def _bounded(data: bytes) -> bytes:
    if len(data) > LARGEST_TRANSFER:
        raise _too_large(f"A file of {len(data) / 2**30:.1f} GiB")
    return data


def _too_large(what: str) -> SettingsError:
    return SettingsError(
        f"{what} is larger than {LARGEST_TRANSFER >> 30} GiB, the largest transfer to or from a served population; "
        "lower limits.parameters, or use a directory that all nodes share."
    )
