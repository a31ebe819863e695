"""The only system calls of the population: a small port that tests replace to make calls fail, lie or crash.

Paths are plain strings: a step makes about thirty calls, and an object per path would cost as much as the calls. The
first part of `Files` is the port; the second part uses only the first, so a replaced call affects everything.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import fcntl
import functools
import os
import platform
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Self

Durability = Literal["safe", "fast"]

# Symbolic links are not followed, since a foreign one must not lead a worker out of the directory. Opening a FIFO in
# the place of a file must not block forever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
_LOG_AGAIN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND | os.O_NONBLOCK
_APPEND = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND | os.O_NONBLOCK
_HEARTBEAT = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# CLOCK_BOOTTIME goes on while the host sleeps, so a suspended worker notices; not every system has it.
_boot_time = functools.partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
_LARGEST_READ = 1 << 30
_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x20000
_DEEPEST = 8

UNCERTAIN = frozenset({errno.ENOENT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EEXIST})
"""Errors after which a call may still have succeeded: a reply was lost, and the repeated request met its own effect."""

NOT_A_FILE = frozenset({errno.EFBIG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO})
"""Errors that mean damage, not a failing disk: in the place of a file is something else, or it is far too long."""

NO_LINKS = frozenset({errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
"""Errors after which a copy can replace a hard link."""


class Files:
    """System calls at one of two levels of durability: `safe` syncs before it reports success, `fast` never syncs."""

    def __init__(
        self,
        *,
        durability: Durability = "safe",
        monotonic: Callable[[], float] = _boot_time,
        wall: Callable[[], float] = time.time,
        urandom: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.safe = durability == "safe"
        self.urandom = urandom
        self.monotonic = monotonic  # seconds that never jump and that go on while the host sleeps
        self.wall = wall  # for people

    def at(self, durability: Durability) -> Self:
        other = copy.copy(self)
        other.safe = durability == "safe"
        return other

    # The port.

    list = staticmethod(os.listdir)
    mkdir = staticmethod(os.mkdir)
    rename = staticmethod(os.rename)  # the only commit
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)
    write = staticmethod(os.write)  # perhaps only some of the data; returns the number of bytes
    read = staticmethod(os.read)
    read_at = staticmethod(os.pread)
    fsync = staticmethod(os.fsync)
    close = staticmethod(os.close)  # on a network this may be the call that reports a full disk

    def link(self, source: str, target: str) -> None:
        os.link(source, target, follow_symlinks=False)

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags, 0o666)

    def size(self, descriptor: int) -> int:
        """Return the length of a regular file; -1 for anything else."""
        found = os.fstat(descriptor)
        return found.st_size if stat.S_ISREG(found.st_mode) else -1

    def fsync_dir(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def spread(self, path: str) -> None:
        """Hint that the directories in this one are unrelated (`chattr +T`), so that ext4 gives each its own group of
        inodes. It skips recently deleted inodes one by one: with all shards in one group, steps are a third slower."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = bytearray(8)
            fcntl.ioctl(descriptor, _GET_FLAGS, flags)
            (known,) = struct.unpack("=i4x", flags)
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("=i4x", known | _TOP_DIRECTORY))
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def process(self) -> tuple[str, int]:
        """Return host name and process ID: for people."""
        return platform.node(), os.getpid()

    # Written in terms of the port.

    def sync_dir(self, path: str) -> None:
        if self.safe:
            self.fsync_dir(path)

    def save(self, path: str, data: bytes) -> None:
        """Write a new file; its name is durable only after a sync of the directory."""
        self._put(path, _NEW, data, sync=self.safe)

    def overwrite(self, path: str, data: bytes) -> None:
        """Rewrite a small file in place; a reader may see a mixture of old and new."""
        self._put(path, _HEARTBEAT, data, sync=False)

    def list_each(self, paths: Sequence[str]) -> Iterable[Sequence[str]]:
        """Return the names in each of several directories; a server does this in one round trip."""
        return map(self.list, paths)

    def append(self, path: str, data: bytes) -> None:
        self._put(path, _APPEND, data, sync=False)

    def open_log(self, path: str) -> int:
        return self.open(path, _LOG)

    def reopen_log(self, path: str) -> int:
        return self.open(path, _LOG_AGAIN)

    def _put(self, path: str, flags: int, data: bytes, *, sync: bool) -> None:
        descriptor = self.open(path, flags)
        try:
            self.write_all(descriptor, data)
            if sync:
                self.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self.close(descriptor)
            raise
        self.close(descriptor)

    def write_all(self, descriptor: int, data: bytes) -> None:
        done = self.write(descriptor, data)
        while done < len(data):
            more = self.write(descriptor, memoryview(data)[done:])
            if more <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += more

    def write_lasting(self, descriptor: int, data: bytes, at: int) -> None:
        """Append to a log of known length, sync it if the durability requires it, and read it back."""
        self.write_all(descriptor, data)
        if self.safe:
            self.fsync(descriptor)
        if self.read_at(descriptor, len(data), at) != data:
            raise OSError(errno.EIO, "what was appended does not read back")

    def load(self, path: str, limit: int) -> bytes:
        """Return the contents of a file; raise EFBIG if it is not a regular file or exceeds the limit."""
        for _ in range(3):
            try:
                return self._load_once(path, limit)
            except OSError as error:
                # The server replaced the file while its handle was cached; opening it again looks it up again.
                if error.errno != errno.ESTALE:
                    raise
        return self._load_once(path, limit)

    def _load_once(self, path: str, limit: int) -> bytes:
        with self._opened(path, limit) as (descriptor, size):
            return self._read_all(descriptor, size)

    def load_from(self, path: str, start: int, limit: int, *, most: int = _LARGEST_READ) -> bytes:
        """Return what a growing file holds from an offset on, at most `most` bytes."""
        with self._opened(path, limit) as (descriptor, size):
            return self.read_at(descriptor, min(size - start, most), start) if size > start else b""

    @contextlib.contextmanager
    def _opened(self, path: str, limit: int) -> Iterator[tuple[int, int]]:
        descriptor = self.open(path, _READ)
        try:
            size = self.size(descriptor)
            if not 0 <= size <= limit:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            yield descriptor, size
        finally:
            with contextlib.suppress(OSError):
                self.close(descriptor)

    def _read_all(self, descriptor: int, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := self.read(descriptor, min(size - len(data), _LARGEST_READ))):
            data += more
        return data

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.unlink(path)

    def clear(self, path: str, inside: Sequence[str]) -> Sequence[str]:
        """Remove files in a directory, given by their full paths; return the names that are left."""
        for one in inside:
            self.unlink(one)
        return self.list(path)

    def remove_tree(self, path: str, depth: int = 0) -> None:
        """Remove an entry of any type. Only what cannot be unlinked is a directory, so no symbolic link is followed."""
        if depth > _DEEPEST:
            raise OSError(errno.ELOOP, "nested deeper than anything that this program creates", path)
        try:
            self.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.EPERM):
                raise
            with contextlib.suppress(FileNotFoundError):
                for name in self.list(path):
                    self.remove_tree(f"{path}/{name}", depth + 1)
                self.rmdir(path)
