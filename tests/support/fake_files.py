"""A file system in memory that does what real ones may do: lie in listings, lose replies, lose power.

* Each client caches listings and the directories behind names, like a network client. It may use an old listing for a
  while, and the old path of a directory that another client renamed may still lead there. Its own changes are fresh.
* A directory's changes and a file's bytes are durable only after a sync. At a power loss each directory keeps a prefix
  of its unsynced changes, independently of the others, and each file some of its unsynced bytes.
* Faults are decided by a `meddle` hook, called before every system call with its name and arguments.

One random generator decides everything, so a seed repeats a history.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from typing import Any

from genepool.population import Files

NAMES = ("list", "mkdir", "rename", "link", "unlink", "rmdir", "fsync_dir")
CONTENTS = ("open", "write", "read", "read_at", "size", "fsync", "close")
PORT = (*NAMES, *CONTENTS, "free_bytes")


class Crash(BaseException):
    """The process is gone: nothing after this call happens."""


class Folder:
    """A directory: its names now, its names on the disk, and the changes in between."""

    def __init__(self) -> None:
        self.entries: dict[str, Folder | Document] = {}
        self.durable: dict[str, Folder | Document] = {}
        self.unsynced: list[Callable[[dict[str, Any]], None]] = []
        self.version = 0
        self.removed = False

    def change(self, operation: Callable[[dict[str, Any]], None]) -> None:
        operation(self.entries)
        self.unsynced.append(operation)
        self.version += 1

    def sync(self) -> None:
        for operation in self.unsynced:
            operation(self.durable)
        self.unsynced = []

    def lose_power(self, rng: random.Random) -> None:
        kept = rng.randint(0, len(self.unsynced))
        for operation in self.unsynced[:kept]:
            operation(self.durable)
        self.unsynced = []
        self.entries = dict(self.durable)
        self.version += 1
        for child in self.entries.values():
            child.lose_power(rng)


class Document:
    """A file: its bytes now, and those on the disk."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""

    def sync(self) -> None:
        self.durable = bytes(self.data)

    def lose_power(self, rng: random.Random) -> None:
        if self.data != self.durable:
            # The length may reach the disk without the bytes, or with some of them, or not at all.
            kept = rng.randint(min(len(self.durable), len(self.data)), len(self.data))
            torn = bytearray(self.data[:kept])
            if rng.random() < 0.3:
                start = rng.randint(min(len(self.durable), kept), kept)
                torn[start:] = bytes(kept - start)
            self.data = torn
            self.durable = bytes(torn)


class Disk:
    """The disk that all clients share."""

    def __init__(self) -> None:
        self.root = Folder()

    def lose_power(self, rng: random.Random) -> None:
        self.root.lose_power(rng)

    def sync(self, node: Folder | Document | None = None) -> None:
        """Make everything durable."""
        node = node or self.root
        node.sync()
        for child in node.entries.values() if isinstance(node, Folder) else ():
            self.sync(child)


class FakeFiles(Files):
    """One client of a disk."""

    def __init__(
        self,
        disk: Disk,
        *,
        rng: random.Random,
        clock: Callable[[], float],
        wall: Callable[[], float] | None = None,
        durability: str = "safe",
        stale: float = 0.0,
        meddle: Callable[[str, tuple[Any, ...], Callable[..., Any]], Any] | None = None,
    ) -> None:
        super().__init__(durability=durability, monotonic=clock, wall=wall or clock, urandom=rng.randbytes)
        self._disk = disk
        self._rng = rng
        self._stale = stale
        self._handles: dict[int, tuple[Document, bool]] = {}
        self._offsets: dict[int, int] = {}
        self._next = 3
        self._listings: dict[int, tuple[Folder, list[str]]] = {}
        self._known: dict[str, Folder] = {}
        if meddle is not None:
            for name in PORT:
                setattr(self, name, self._meddled(meddle, name))

    def _meddled(self, meddle: Callable[..., Any], name: str) -> Callable[..., Any]:
        call = getattr(type(self), name).__get__(self)
        return lambda *arguments: meddle(name, arguments, call)

    # Finding.

    def _folder(self, path: str) -> Folder:
        node: Folder | Document = self._disk.root
        walked = ""
        for part in path.strip("/").split("/"):
            walked += "/" + part
            found = node.entries.get(part) if isinstance(node, Folder) else None
            if found is None:
                found = self._remembered(walked)
            if found is None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = found
        if not isinstance(node, Folder):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if self._stale:
            self._known[walked] = node
        return node

    def _remembered(self, path: str) -> Folder | None:
        known = self._known.get(path)
        if known is None or known.removed or self._rng.random() >= self._stale:
            return None
        return known

    def _parent(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name

    def _entry(self, path: str) -> tuple[Folder, str, Folder | Document]:
        folder, name = self._parent(path)
        if name not in folder.entries:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return folder, name, folder.entries[name]

    def _changed(self, folder: Folder, operation: Callable[[dict[str, Any]], None]) -> None:
        folder.change(operation)
        self._listings.pop(id(folder), None)

    # The port.

    def list(self, path: str) -> list[str]:
        folder = self._folder(path)
        old = self._listings.get(id(folder))
        if old is not None and self._rng.random() < self._stale:
            return old[1]
        names = sorted(folder.entries)
        self._rng.shuffle(names)
        if self._stale:
            self._listings[id(folder)] = (folder, names)
        return names

    def mkdir(self, path: str) -> None:
        folder, name = self._parent(path)
        if name in folder.entries:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        new = Folder()
        self._changed(folder, lambda entries: entries.__setitem__(name, new))

    def rename(self, source: str, target: str) -> None:
        folder, old, node = self._entry(source)
        other, new = self._parent(target)
        assert folder is other, "the protocol renames inside one directory"
        there = folder.entries.get(new)
        if isinstance(there, Folder) and there.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)

        def move(entries: dict[str, Any]) -> None:
            entries.pop(old, None)
            entries[new] = node

        self._changed(folder, move)

    def link(self, source: str, target: str) -> None:
        _, _, node = self._entry(source)
        folder, name = self._parent(target)
        if name in folder.entries:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        self._changed(folder, lambda entries: entries.__setitem__(name, node))

    def unlink(self, path: str) -> None:
        folder, name, node = self._entry(path)
        if isinstance(node, Folder):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._changed(folder, lambda entries: entries.pop(name, None))

    def rmdir(self, path: str) -> None:
        folder, name, node = self._entry(path)
        if not isinstance(node, Folder):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if node.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        node.removed = True
        self._changed(folder, lambda entries: entries.pop(name, None))

    def open(self, path: str, flags: int) -> int:
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if flags & os.O_EXCL and node is not None:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if node is None:
            if not flags & os.O_CREAT:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if folder.removed:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
            node = Document()
            fresh = node
            self._changed(folder, lambda entries: entries.__setitem__(name, fresh))
        if isinstance(node, Folder):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._next += 1
        self._handles[self._next] = (node, bool(flags & os.O_APPEND))
        self._offsets[self._next] = 0
        return self._next

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        document, append = self._handles[descriptor]
        start = len(document.data) if append else self._offsets[descriptor]
        document.data[start : start + len(data)] = data
        self._offsets[descriptor] = start + len(data)
        return len(data)

    def read(self, descriptor: int, length: int) -> bytes:
        document, _ = self._handles[descriptor]
        start = self._offsets[descriptor]
        self._offsets[descriptor] = start + length
        return bytes(document.data[start : start + length])

    def read_at(self, descriptor: int, length: int, offset: int) -> bytes:
        return bytes(self._handles[descriptor][0].data[offset : offset + length])

    def size(self, descriptor: int) -> int:
        return len(self._handles[descriptor][0].data)

    def fsync(self, descriptor: int) -> None:
        self._handles[descriptor][0].sync()

    def close(self, descriptor: int) -> None:
        del self._handles[descriptor]

    def fsync_dir(self, path: str) -> None:
        self._folder(path).sync()

    def spread(self, path: str) -> None:
        """Do nothing: the hint has no effect here."""

    def free_bytes(self, path: str) -> int:
        return 0  # no reserve: it would be copied for every seed

    def process(self) -> tuple[str, int]:
        return "fake", 1
