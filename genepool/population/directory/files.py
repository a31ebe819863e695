"""The only system calls of the population: a small port that tests replace to make calls fail, lie or crash.

Paths are plain strings: the hot path of a step is some thirty calls, and an object for each path would cost as much as
the calls. The first part of `Files` is the port; the second is written in terms of the first, so a replaced call is
met by everything.
"""
# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH208

from __future__ import annotations

import contextlib
import copy
import errno
import fcntl
import os
import platform
import stat
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Self

Durability = Literal["safe", "fast"]

# A name in the last place is never followed: a stranger's symlink must not lead a worker out of the directory. A fifo
# in the place of a file must not block its reader for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
_LOG_AGAIN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND | os.O_NONBLOCK
_APPEND = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND | os.O_NONBLOCK
_HEARTBEAT = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Goes on while the host sleeps, so that a worker that was suspended notices; not every system has it.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_LARGEST_READ = 1 << 30
_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x20000
_DEEPEST = 8

UNCERTAIN = frozenset({errno.ENOENT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EEXIST})
"""After these a call may have happened all the same: a reply was lost, and the repeated request met its own effect."""

NOT_A_FILE = frozenset({errno.EFBIG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO})
"""What stands in the place of a file is something else, or far too long: damage, not a failing disk."""

NO_LINKS = frozenset({errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
"""No hard link here, but a copy does as well."""


class Files:
    """System calls at one of two levels of durability: `safe` syncs before it claims anything, `fast` never does."""

    def __init__(
        self,
        *,
        durability: Durability = "safe",
        monotonic: Callable[[], float] | None = None,
        wall: Callable[[], float] = time.time,
        urandom: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.safe = durability == "safe"
        self.urandom = urandom
        self._monotonic = monotonic or _boot_time
        self._wall = wall

    def at(self, durability: Durability) -> Self:
        """The same files at a level of durability."""
        other = copy.copy(self)
        other.safe = durability == "safe"
        return other

    # The port.

    def list(self, path: str) -> list[str]:
        """The names in a directory."""
        return os.listdir(path)

    def mkdir(self, path: str) -> None:
        """A new directory; refuses one that exists."""
        os.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        """The only commit."""
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        """A second name for the same bytes."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """Removes a name that is not a directory."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        os.rmdir(path)

    def open(self, path: str, flags: int) -> int:
        """A descriptor."""
        return os.open(path, flags, 0o666)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Writes some of the data and says how much."""
        return os.write(descriptor, data)

    def read(self, descriptor: int, length: int) -> bytes:
        """Some of the bytes that follow; none at the end."""
        return os.read(descriptor, length)

    def read_at(self, descriptor: int, length: int, offset: int) -> bytes:
        """Bytes at a place."""
        return os.pread(descriptor, length, offset)

    def size(self, descriptor: int) -> int:
        """The length of a regular file; -1 for anything else."""
        found = os.fstat(descriptor)
        return found.st_size if stat.S_ISREG(found.st_mode) else -1

    def fsync(self, descriptor: int) -> None:
        """Data and length onto the disk."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Gives the descriptor back; on a network this may be where a full disk shows."""
        os.close(descriptor)

    def fsync_dir(self, path: str) -> None:
        """A directory's names onto the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def spread(self, path: str) -> None:
        """A hint that the directories in this one have nothing to do with each other (`chattr +T`).

        ext4 then gives each a group of inodes of its own. It skips inodes that were deleted in the last minutes, one by
        one, so with all shards in one group a busy population would slow itself down by a third.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = bytearray(8)
            fcntl.ioctl(descriptor, _GET_FLAGS, flags)
            (known,) = struct.unpack("=i4x", flags)
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("=i4x", known | _TOP_DIRECTORY))
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        """What is left for ordinary users."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def monotonic(self) -> float:
        """Seconds that never jump and that go on while the host sleeps."""
        return self._monotonic()

    def wall(self) -> float:
        """The host's idea of the time of day: for people."""
        return self._wall()

    def process(self) -> tuple[str, int]:
        """Host and process number: for people."""
        return platform.node(), os.getpid()

    # Written in terms of the port.

    def sync_dir(self, path: str) -> None:
        """The names of a directory, if this level of durability asks for it."""
        if self.safe:
            self.fsync_dir(path)

    def save(self, path: str, data: bytes) -> None:
        """Writes a new file; its name is durable only after a sync of the directory."""
        self._put(path, _NEW, data, sync=self.safe)

    def overwrite(self, path: str, data: bytes) -> None:
        """Rewrites a small file in place; a reader may see a mixture of old and new."""
        self._put(path, _HEARTBEAT, data, sync=False)

    def list_each(self, paths: Sequence[str]) -> Iterable[Sequence[str]]:
        """The names in each of several directories; where files are far away, in one journey."""
        return map(self.list, paths)

    def append(self, path: str, data: bytes) -> None:
        """Adds to a file that is there."""
        self._put(path, _APPEND, data, sync=False)

    def open_log(self, path: str) -> int:
        """A new file to append to."""
        return self.open(path, _LOG)

    def reopen_log(self, path: str) -> int:
        """The same once more, for whoever does not keep it open."""
        return self.open(path, _LOG_AGAIN)

    def _put(self, path: str, flags: int, data: bytes, *, sync: bool) -> None:
        descriptor = self.open(path, flags)
        try:
            self.write_all(descriptor, data)
            if sync:
                self.fsync(descriptor)
        except OSError:
            self._close_quietly(descriptor)
            raise
        self.close(descriptor)

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Every byte, or an error."""
        done = self.write(descriptor, data)
        while done < len(data):
            more = self.write(descriptor, memoryview(data)[done:])
            if more <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += more

    def write_lasting(self, descriptor: int, data: bytes, at: int) -> None:
        """Adds to a log whose length is known, syncs it if this level of durability asks for it, and reads it back."""
        self.write_all(descriptor, data)
        if self.safe:
            self.fsync(descriptor)
        if self.read_at(descriptor, len(data), at) != data:
            raise OSError(errno.EIO, "what was appended does not read back")

    def load(self, path: str, limit: int) -> bytes:
        """A whole file; what is not a regular file or is longer than the limit is refused with EFBIG."""
        for _ in range(3):
            try:
                return self._load_once(path, limit)
            except OSError as error:
                # The server replaced the file while its handle was in our cache; opening it anew looks again.
                if error.errno != errno.ESTALE:
                    raise
        return self._load_once(path, limit)

    def _load_once(self, path: str, limit: int) -> bytes:
        descriptor = self.open(path, _READ)
        try:
            size = self.size(descriptor)
            if not 0 <= size <= limit:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            return self._read_all(descriptor, size)
        finally:
            self._close_quietly(descriptor)

    def _close_quietly(self, descriptor: int) -> None:
        try:
            self.close(descriptor)
        except OSError:
            return

    def load_from(self, path: str, start: int, limit: int, *, most: int = _LARGEST_READ) -> bytes:
        """What a file that grows holds behind a place, or the beginning of it."""
        descriptor = self.open(path, _READ)
        try:
            size = self.size(descriptor)
            if not 0 <= size <= limit:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            return self.read_at(descriptor, min(size - start, most), start) if size > start else b""
        finally:
            with contextlib.suppress(OSError):
                self.close(descriptor)

    def _read_all(self, descriptor: int, size: int) -> bytes:
        data = self.read(descriptor, min(size, _LARGEST_READ))
        while len(data) < size:
            more = self.read(descriptor, min(size - len(data), _LARGEST_READ))
            if not more:
                break
            data += more
        return data

    def remove(self, path: str) -> None:
        """Removes a file; one that is gone is as good."""
        try:
            self.unlink(path)
        except FileNotFoundError:
            return

    def clear(self, path: str, inside: Sequence[str]) -> Sequence[str]:
        """Removes files, by their whole paths, that are in a directory; tells what is left there."""
        for one in inside:
            self.unlink(one)
        return self.list(path)

    def remove_tree(self, path: str, depth: int = 0) -> None:
        """Removes whatever is there. Only what refuses to be unlinked is a directory, so no symlink is followed."""
        if depth > _DEEPEST:
            raise OSError(errno.ELOOP, "nested deeper than anything that this program makes", path)
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


def _boot_time() -> float:
    return time.clock_gettime(_CLOCK)
