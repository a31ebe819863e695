"""Workers as each other see them: a directory per worker, its heartbeat, and leases by observation.

Leases by observation: who trains what, and since when nothing was heard of whom.

A lease is a hint, not a lock: it only says when a takeover is worth trying; the rename decides. No wall clock is ever
compared with another: an observer measures, on its own monotonic clock, for how long a beat has not *changed*, and
counts only the time during which its own beats got through. Otherwise the first client to recover from a server's
outage would take everything over.

A worker's own directory, `workers/<who>/`: its claim to its name, its beat, its diary and its archive.

One writer per file, always: nobody else writes here, and the name is drawn anew for every incarnation of a process.
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
from genepool.population.directory.archive import Archive, EventLog
from genepool.population.directory.files import Files
from genepool.population.individual import FREE, Individual, State

HEARTBEATS_PER_LEASE = 20
"""Beats are written at most so often; five lost ones and two caches of a minute fit into the default lease."""


class Pulse:
    """A worker's own beats: when the next is due, and since when they have got through on time."""

    def __init__(self, lease: float, now: float) -> None:
        self._lease = lease
        self._last = now
        self._steady_since = now
        self._said: tuple[str, int] | None = None
        self._count = 0

    def due(self, phase: str, step: int, now: float) -> bytes | None:
        """The beat to write now, or None: too early, or no progress since the last (a hung trainer must look hung)."""
        if (phase, step) == self._said or (self._count and now - self._last < self._lease / HEARTBEATS_PER_LEASE):
            return None
        self._said = (phase, step)
        self._count += 1
        return f"{self._count} {phase} {step}".encode("ascii", "replace")[:63].ljust(63) + b"\n"

    def written(self, now: float) -> None:
        """The beat got through; a late one begins a new steady time."""
        if now - self._last > self._lease / 2:
            self._steady_since = now
        self._last = now

    def steady_for(self, now: float) -> float:
        """For how long, up to now, beats have got through on time; 0 while one is late."""
        return now - self._steady_since if now - self._last <= self._lease / 2 else 0.0


class HeartbeatMonitor:
    """What an observer knows about the beats of others."""

    def __init__(self, read: Callable[[str], bytes], lease: float) -> None:
        self._read = read
        self._lease = lease
        self._seen: dict[str, _Sighting] = {}

    def unchanged_for(self, who: str, now: float) -> float:
        """For how long the same beat has been seen; 0 at the first look and after every change.

        Looks at most as often as beats are written, except that nobody is called silent without another look.
        """
        known = self._seen.get(who)
        if known and now - known.looked < self._lease / HEARTBEATS_PER_LEASE and now - known.since < self._lease:
            return now - known.since
        value = self._read(who)
        since = known.since if known and known.value == value else now
        self._seen[who] = _Sighting(value, since, now)
        return now - since

    def forget_others(self, owners: set[str]) -> None:
        """Keeps only those who still own something, so that a long run does not remember every dead worker."""
        self._seen = {who: seen for who, seen in self._seen.items() if who in owners}


class _Sighting(NamedTuple):
    value: bytes
    since: float
    looked: float


HEARTBEAT, INFO = "heartbeat", "info.json"
_HEARTBEAT_BYTES, _INFO_BYTES = 64, 4096


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """Who a worker is, for people."""

    host: str
    process: int
    started: float
    version: str


class WorkerFiles:
    """A worker's own files, as observers read them."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files, self._directory = files, directory

    def heartbeat(self) -> bytes:
        """The latest heartbeat; empty if there is none."""
        try:
            return self._files.load(f"{self._directory}/{HEARTBEAT}", _HEARTBEAT_BYTES)
        except OSError:
            return b""

    def info(self) -> Info | None:
        """What the worker says about itself."""
        try:
            return msgspec.json.decode(self._files.load(f"{self._directory}/{INFO}", _INFO_BYTES), type=Info)
        except (OSError, msgspec.MsgspecError):
            return None


class Presence:
    """One incarnation of one worker, as others see it."""

    def __init__(self, files: Files, workers: str, lease: float) -> None:
        self._files = files
        self._workers = workers
        self._lease = lease
        self.who = self._claim()
        self._directory = f"{workers}/{self.who}"
        self._pulse = Pulse(lease, files.monotonic())
        self._watch = HeartbeatMonitor(self._read_heartbeat, lease)
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
                raise StorageError(f"{self._workers} cannot be written: {error}; check mount and rights.") from error
        raise StorageError(f"No free name was found in {self._workers}; the source of randomness repeats itself.")

    def _introduce(self) -> None:
        host, process = self._files.process()
        info = Info(host=host, process=process, started=self._files.wall(), version=__version__)
        with contextlib.suppress(OSError):
            self._files.save(f"{self._directory}/{INFO}", msgspec.json.encode(info))
        self.heartbeat("start", 0)

    def heartbeat(self, phase: str, step: int) -> None:
        """Shows that this worker gets on; a beat that does not get through is no reason to stop training."""
        value = self._pulse.due(phase, step, self._files.monotonic())
        if value is not None:
            with contextlib.suppress(OSError):
                self._files.overwrite(f"{self._directory}/{HEARTBEAT}", value)
                self._pulse.written(self._files.monotonic())

    def _read_heartbeat(self, who: str) -> bytes:
        try:
            return self._files.load(f"{self._workers}/{who}/{HEARTBEAT}", _HEARTBEAT_BYTES)
        except OSError as error:
            # Not there at all is a value like any other. Unreadable just now proves nothing: it counts as a change.
            return b"" if error.errno == errno.ENOENT else self._files.urandom(8)

    def abandoned(self, individual: Individual) -> bool:
        """Whether whoever owns this has been silent for a whole lease, as seen from here, or is nobody else."""
        if individual.state not in (State.TRAINING, State.STAGING, State.COLLECTED):
            return False
        if individual.owner in (FREE, self.who):
            return True
        now = self._files.monotonic()
        # Both are asked each time: the look at the beat is what starts the window.
        silence, steady = self._watch.unchanged_for(individual.owner, now), self._pulse.steady_for(now)
        return min(silence, steady) >= self._lease

    def forget_others(self, owners: set[str]) -> None:
        """Keeps observing only those who own something."""
        self._watch.forget_others(owners)

    def close(self) -> None:
        """Gives the open files back."""
        self.events.close()
        self.archive.close()
