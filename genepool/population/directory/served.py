"""A population's files on another machine: the same port, each call carried to a server that has the directory.

The protocol of the store is thus one and the same everywhere; what a network may do to it, losing a reply in the
middle of a rename, is what the store was built for. Only two things are added: calls that only look are repeated when
their answer was lost, and calls that change something report EIO, after which the store finds out what happened.
The server remembers nothing, so it may be killed and started again at any moment.

What belongs together is one call, since each is a journey, and lines of a diary, which may be lost, travel with the
next one.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from genepool.errors import SettingsError
from genepool.population.directory.files import Files

LARGEST = 1 << 30
"""Bytes that travel at once; the weights and the momentum of 100 million parameters fit."""
TRIES = 5


class Answer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What came of a call: a value, or the number and the words of an OSError."""

    value: Any = None
    error: int = 0
    words: str = ""


class AnswerLost(Exception):  # noqa: N818 - what happened, not what is wrong
    """The server was lost before it answered; whether it had done what was asked for nobody knows."""


Diary = Sequence[tuple[str, bytes]]
"""Paths, and what is to be added there."""
Send = Callable[[str, tuple[Any, ...], bool, Diary], Answer]
"""Carries a call's name, arguments and durability, and lines to be written first, to the server, and waits for one that
is gone; raises AnswerLost if it went while the call was with it."""

LOOKING = frozenset({"list", "list_each", "load", "load_from", "free_bytes"})
CHANGING = frozenset(
    {
        *("mkdir", "rename", "link", "unlink", "rmdir", "remove", "clear", "remove_tree", "spread"),
        *("save", "overwrite", "begin_log", "append", "append_lasting", "fsync_dir"),
    }
)


class FileServer:
    """Does what it is asked for, below one directory only."""

    def __init__(self, root: str, files: Files | None = None) -> None:
        files = files or Files()
        self._root = root.rstrip("/")
        self._files = {True: files.at("safe"), False: files.at("fast")}

    def do(self, name: str, arguments: tuple[Any, ...], safe: bool = True, diary: Diary = ()) -> Answer:
        """One call. Whatever is not in the two lists, or leads out of the directory, is refused."""
        for line in diary:
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
        paths = itertools.chain.from_iterable([a] if isinstance(a, str) else a for a in arguments if _holds_paths(a))
        for path in paths:
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


def _holds_paths(argument: object) -> bool:
    return isinstance(argument, str | list)


class ServedFiles(Files):
    """The files of a directory that a server has, for one worker; clocks and random numbers are the worker's own."""

    def __init__(self, send: Send, **kinds: Any) -> None:
        super().__init__(**kinds)
        self._send = send
        self._logs: dict[int, str] = {}
        self._numbers = itertools.count()
        self._diary: list[tuple[str, bytes]] = []

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        diary = [*self._diary]
        self._diary.clear()  # once: nobody knows whether lines on a lost journey were written
        return _value(self._send(name, arguments, self.safe, diary))

    def _look(self, name: str, *arguments: Any) -> Any:
        for _ in range(TRIES):
            try:
                return self._call(name, arguments)
            except AnswerLost:
                continue
        raise OSError(errno.EIO, "the server of the population was lost again and again")

    def _change(self, name: str, *arguments: Any) -> Any:
        try:
            return self._call(name, arguments)
        except AnswerLost as error:
            raise OSError(errno.EIO, "the answer of the server of the population was lost") from error

    # Names.

    def list(self, path: str) -> list[str]:
        found: list[str] = self._look("list", path)
        return found

    def list_each(self, paths: Sequence[str]) -> Iterable[Sequence[str]]:
        found: Iterable[Sequence[str]] = self._look("list_each", [*paths])
        return found

    def mkdir(self, path: str) -> None:
        self._change("mkdir", path)

    def rename(self, source: str, target: str) -> None:
        self._change("rename", source, target)

    def link(self, source: str, target: str) -> None:
        self._change("link", source, target)

    def unlink(self, path: str) -> None:
        self._change("unlink", path)

    def rmdir(self, path: str) -> None:
        self._change("rmdir", path)

    def remove(self, path: str) -> None:
        self._change("remove", path)

    def clear(self, path: str, inside: Sequence[str]) -> Sequence[str]:
        left: Sequence[str] = self._change("clear", path, [*inside])
        return left

    def remove_tree(self, path: str, depth: int = 0) -> None:
        self._change("remove_tree", path)

    def fsync_dir(self, path: str) -> None:
        self._change("fsync_dir", path)

    def spread(self, path: str) -> None:
        self._change("spread", path)

    def free_bytes(self, path: str) -> int:
        return int(self._look("free_bytes", path))

    # Contents.

    def save(self, path: str, data: bytes) -> None:
        self._change("save", path, _bounded(data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._change("overwrite", path, _bounded(data))

    def load(self, path: str, limit: int) -> bytes:
        try:
            return bytes(self._look("load", path, min(limit, LARGEST)))
        except OSError as error:
            if error.errno == errno.EFBIG and limit > LARGEST:
                raise _too_large(path) from error
            raise

    def load_from(self, path: str, start: int, limit: int, *, most: int = LARGEST) -> bytes:
        return bytes(self._look("load_from", path, start, limit))[:most]

    # Logs: a descriptor here is a number of our own, since one of the server's would not outlive it.

    def open_log(self, path: str) -> int:
        self._change("begin_log", path)
        number = next(self._numbers)
        self._logs[number] = path
        return number

    def write_all(self, descriptor: int, data: bytes) -> None:
        self._diary.append((self._logs[descriptor], data))

    def write_lasting(self, descriptor: int, data: bytes, at: int) -> None:
        self._change("append_lasting", self._logs[descriptor], data, at)

    def close(self, descriptor: int) -> None:
        self._logs.pop(descriptor, None)
        if self._diary:
            self._change("append", *self._diary.pop())


def _value(answer: Answer) -> Any:
    if answer.error:
        raise OSError(answer.error, answer.words)
    return answer.value


def _bounded(data: bytes) -> bytes:
    if len(data) > LARGEST:
        raise _too_large(f"a file of {len(data) / 2**30:.1f} GiB")
    return data


def _too_large(what: str) -> SettingsError:
    return SettingsError(
        f"At most {LARGEST >> 30} GiB travel to and from a served population at once, less than {what} has; "
        "lower max_parameters, or use a directory that all nodes share."
    )
