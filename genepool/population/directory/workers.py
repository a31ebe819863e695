"""The workers of a population, as they see each other: one directory per worker, heartbeats, and leases by observation.

Only the worker itself writes in `workers/<who>/`, and every process draws a new ID. A lease is a hint, not a lock: it
only says when a takeover is worth trying; the rename decides. An observer counts only the time during which its own
heartbeats succeeded. Otherwise the first client to recover from a server outage would take everything over.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from genepool import __version__
from genepool.errors import StorageError
from genepool.population.directory import names
from genepool.population.directory.files import Files
from genepool.population.directory.log import Archive, EventLog
from genepool.population.individual import FREE, Individual, State

HEARTBEAT, INFO, INVITATION = "heartbeat", "info.json", "invitation.json"
HEARTBEATS_PER_LEASE = 20
"""The highest rate of heartbeats: the default lease has room for five lost ones and two one-minute caches."""
_HEARTBEAT_BYTES, _INFO_BYTES = 64, 4096


class HeartbeatTimer:
    """Schedules a worker's own heartbeats, and measures for how long they have been succeeding on time."""

    def __init__(self, lease: float, now: float) -> None:
        self._lease = lease
        self._last = self._steady_since = now
        self._progress: tuple[str, int, int] | None = None
        self._count = 0

    def due(self, progress: tuple[str, int, int], now: float, *, last: bool = False) -> bytes | None:
        """Return the heartbeat to write now; None if it is too early or there was no progress. Without progress there
        is no heartbeat, because a hung trainer must look hung. The last one is never too early."""
        too_early = self._count and now - self._last < self._lease / HEARTBEATS_PER_LEASE and not last
        if progress == self._progress or too_early:
            return None
        self._progress = progress
        self._count += 1
        phase, step, flops = progress
        return f"{self._count} {phase} {step} {flops}".encode("ascii", "replace")[:63].ljust(63) + b"\n"

    def written(self, now: float) -> None:
        """Record a successful heartbeat; a late one starts a new steady period."""
        if now - self._last > self._lease / 2:
            self._steady_since = now
        self._last = now

    def steady_for(self, now: float) -> float:
        """Return for how many seconds heartbeats have succeeded on time; 0 while one is late."""
        return now - self._steady_since if now - self._last <= self._lease / 2 else 0.0


class HeartbeatMonitor:
    def __init__(self, read: Callable[[str], bytes], lease: float) -> None:
        self._read, self._lease = read, lease
        self._seen: dict[str, _Observation] = {}

    def unchanged_for(self, who: str, now: float) -> float:
        """Return for how many seconds the same heartbeat has been seen; 0 at first and after every change. This reads
        at most as often as heartbeats are written, but always before it reports a full lease."""
        known = self._seen.get(who)
        if known and now - known.looked < self._lease / HEARTBEATS_PER_LEASE and now - known.since < self._lease:
            return now - known.since
        value = self._read(who)
        since = known.since if known and known.value == value else now
        self._seen[who] = _Observation(value, since, now)
        return now - since

    def forget_others(self, owners: set[str]) -> None:
        """Keep only workers that still own something, so that a long run does not remember every dead worker."""
        self._seen = {who: seen for who, seen in self._seen.items() if who in owners}


class _Observation(NamedTuple):
    value: bytes
    since: float
    looked: float


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """A description of a worker, for people."""

    host: str
    process: int
    started: float
    version: str


class WorkerFiles:
    def __init__(self, files: Files, directory: str) -> None:
        self._files, self._directory = files, directory

    def flops(self) -> int:
        words = self.heartbeat().split()
        return int(words[3]) if len(words) > 3 and words[3].isdigit() else 0

    def heartbeat(self) -> bytes:
        try:
            return self._files.load(f"{self._directory}/{HEARTBEAT}", _HEARTBEAT_BYTES)
        except OSError:
            return b""

    def info(self) -> Info | None:
        try:
            return msgspec.json.decode(self._files.load(f"{self._directory}/{INFO}", _INFO_BYTES), type=Info)
        except (OSError, msgspec.MsgspecError):
            return None

    def invitation(self) -> bytes | None:
        try:
            return self._files.load(f"{self._directory}/{INVITATION}", _INFO_BYTES)
        except OSError:
            return None


class WorkerDirectory:
    """The directory of this process's worker, and its view of the other workers."""

    def __init__(self, files: Files, workers: str, lease: float) -> None:
        self._files, self._workers, self._lease = files, workers, lease
        self.who = self._claim()
        self._directory = f"{workers}/{self.who}"
        self._timer = HeartbeatTimer(lease, files.monotonic())
        self.monitor = HeartbeatMonitor(self._read_heartbeat, lease)
        self._progress = ("start", 0, 0)
        self.events = EventLog(files, self._directory)
        self.archive = Archive(files, self._directory)
        self._introduce()

    def _claim(self) -> str:
        for _ in range(100):
            who = names.make_who(self._files.urandom)
            try:
                self._files.mkdir(f"{self._workers}/{who}")
                self._files.sync_dir(self._workers)
                return who
            except FileExistsError:
                continue
            except OSError as error:
                message = f"{self._workers} cannot be written: {error}; check the mount and its permissions."
                raise StorageError(message) from error
        raise StorageError(f"No free worker ID was found in {self._workers}; the source of randomness repeats itself.")

    def _introduce(self) -> None:
        host, process = self._files.process()
        info = Info(host=host, process=process, started=self._files.wall(), version=__version__)
        with contextlib.suppress(OSError):
            self._files.save(f"{self._directory}/{INFO}", msgspec.json.encode(info))
        self._write(last=False)

    def heartbeat(self, phase: str, step: int, flops: int) -> None:
        """Write a heartbeat if one is due; a failure is no reason to stop training."""
        self._progress = (phase, step, flops)
        self._write(last=False)

    def _write(self, *, last: bool) -> None:
        value = self._timer.due(self._progress, self._files.monotonic(), last=last)
        if value is not None:
            with contextlib.suppress(OSError):
                self._files.overwrite(f"{self._directory}/{HEARTBEAT}", value)
                self._timer.written(self._files.monotonic())

    def invite(self, invitation: bytes | None) -> None:
        """Write or remove the invitation to this worker's training; without one, it is trained alone."""
        path = f"{self._directory}/{INVITATION}"
        with contextlib.suppress(OSError):
            if invitation is None:
                self._files.remove(path)
            else:
                self._files.overwrite(path, invitation)

    def _read_heartbeat(self, who: str) -> bytes:
        try:
            return self._files.load(f"{self._workers}/{who}/{HEARTBEAT}", _HEARTBEAT_BYTES)
        except OSError as error:
            # A missing file is a value like any other. A failed read proves nothing, so it counts as a change.
            return b"" if error.errno == errno.ENOENT else self._files.urandom(8)

    def abandoned(self, individual: Individual) -> bool:
        """Return whether it has no owner, belongs to this worker, or its owner has been silent for a full lease."""
        if individual.state not in (State.TRAINING, State.STAGING, State.COLLECTED):
            return False
        if individual.owner in (FREE, self.who):
            return True
        now = self._files.monotonic()
        # Both are always evaluated: reading the heartbeat is what starts the lease.
        silence, steady = self.monitor.unchanged_for(individual.owner, now), self._timer.steady_for(now)
        return min(silence, steady) >= self._lease

    def close(self) -> None:
        """Write the last heartbeat, which shows all that was executed, and close the open files."""
        self._write(last=True)
        self.events.close()
        self.archive.close()
