"""Which drivers work on a study, and which of them leads each experiment.

    <study>/drivers/<who>            a driver's heartbeat, rewritten in place and locked while its process lives
    <experiment>/leaders/<number>    the name of a driver, created exclusively; the highest number leads

A driver is a process of `genepool study`. The leader of an experiment makes the planned changes, copies the weights of
records and writes the outcome. Leadership is a lease, as in the store: another driver takes over when the leader's
heartbeat has not changed for a lease on the observer's own monotonic clock, or, on the same machine, when its lock is
released because the process has ended.
"""

import contextlib
import fcntl
import os
import platform
import re
import secrets
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from genepool.errors import StorageError, shown
from genepool.population import Files

DRIVERS, LEADERS, FREE = "drivers", "leaders", "free"
HEARTBEATS_PER_LEASE, _LARGEST = 20, 1 << 20
_WHO = re.compile(rf"[0-9a-f]{{8}}|{FREE}")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver says of itself with each heartbeat."""

    count: int = 0
    host: str = ""
    process: int = 0
    machine: str = ""  # the running system; empty if this file cannot be locked
    serves: dict[str, int] = {}  # the number of workers that it runs, by experiment


class _Seen(NamedTuple):
    value: bytes
    since: float
    note: Note
    gone: bool


class Driver:
    """This process as a driver of a study, and its view of the other drivers."""

    def __init__(self, folder: Path, lease: float) -> None:
        self.who, self.lease = secrets.token_hex(4), lease
        self._folder = folder / DRIVERS
        self._writing, self._looking, self._closed = threading.Lock(), threading.Lock(), threading.Event()
        self._seen: dict[str, _Seen] = {}
        self._looked = time.monotonic()
        try:
            self._folder.mkdir(exist_ok=True)
            self._file = os.open(self._folder / self.who, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StorageError(f"'{shown(self._folder)}' cannot be written: {error.strerror or error}.") from None
        self._note = Note(host=platform.node(), process=os.getpid(), machine=machine() if self._locked() else "")

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        self.heartbeat()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            (self._folder / self.who).unlink(missing_ok=True)
        os.close(self._file)

    def _keep_beating(self) -> None:
        while not self._closed.wait(self.lease / HEARTBEATS_PER_LEASE):
            self.heartbeat()

    def heartbeat(self, serves: dict[str, int] | None = None) -> None:
        """Write the next heartbeat, with the number of workers for some experiments if it has changed."""
        with self._writing, contextlib.suppress(OSError):  # a failure is no reason to stop: others notice the silence
            served = {**self._note.serves, **(serves or {})}
            self._note = msgspec.structs.replace(self._note, count=self._note.count + 1, serves=served)
            data = msgspec.json.encode(self._note)
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))
            os.fsync(self._file)

    # -- the others ----------------------------------------------------------------------------------------------------

    def others(self) -> dict[str, Note]:
        """The other drivers that may be at work."""
        try:
            names = Files().list(str(self._folder))
        except OSError:
            names = []
        return {who: self._seen[who].note for who in names if who != self.who and self.is_alive(who)}

    def is_alive(self, who: str) -> bool:
        """Whether a driver may be at work: not if it has been silent for a lease, or if its process is gone."""
        with self._looking:
            now = time.monotonic()
            if now - self._looked > self.lease / 2:  # this process or the file system was stuck: silence proves nothing
                self._seen = {name: seen._replace(since=now) for name, seen in self._seen.items()}
            self._looked = now
            seen = self._seen[who] = self._observed(who, now)
        return who == self.who or not (seen.gone or now - seen.since >= self.lease)

    def _observed(self, who: str, now: float) -> _Seen:
        known = self._seen.get(who)
        if known is not None and known.gone:
            return known
        try:
            value = Files().load(str(self._folder / who), _LARGEST)
        except FileNotFoundError:
            value = b""  # a value like any other
        except OSError:
            value = secrets.token_bytes(8)  # a failed read proves nothing, so it counts as a change
        if known is not None and value == known.value:
            return known._replace(gone=self._is_gone(who, known.note))
        note = known.note if known else Note()
        with contextlib.suppress(msgspec.MsgspecError):  # read while it was written
            note = msgspec.json.decode(value, type=Note)
        return _Seen(value, now, note, self._is_gone(who, note))

    def _is_gone(self, who: str, note: Note) -> bool:
        """Whether the process has ended, which is known only on the same machine."""
        if not note.machine or note.machine != machine():
            return False
        with contextlib.suppress(OSError), (self._folder / who).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        return False


def machine() -> str:
    """A name of the running system, the same in all its containers; empty if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Leadership:
    """The lease of one experiment."""

    def __init__(self, folder: Path, number: int) -> None:
        self._next = folder / str(number + 1)

    def held(self) -> bool:
        """Whether no other driver has taken over."""
        return not self._next.exists()

    def release(self) -> None:
        """Let any driver take over at once."""
        with contextlib.suppress(OSError):
            Files().save(str(self._next), FREE.encode())


def claim(experiment: Path, driver: Driver) -> Leadership | None:
    """Become the leader of an experiment, if it has none that is alive."""
    number, who = _leader(experiment)
    if who != FREE and who != driver.who and driver.is_alive(who):
        return None
    folder = experiment / LEADERS
    try:
        folder.mkdir(exist_ok=True)
        Files().save(str(folder / str(number + 1)), driver.who.encode())
    except FileExistsError:
        return None
    except OSError as error:
        raise StorageError(f"'{shown(folder)}' cannot be written: {error.strerror or error}.") from None
    return Leadership(folder, number + 1)


def is_led(experiment: Path, driver: Driver) -> bool:
    """Whether an experiment has a leader that is alive, which may be this driver."""
    _, who = _leader(experiment)
    return who != FREE and driver.is_alive(who)


def leader_of(experiment: Path) -> str:
    """The driver that leads, alive or not."""
    return _leader(experiment)[1]


def _leader(experiment: Path) -> tuple[int, str]:
    """The highest number and the driver that created it; one that did not write its name is an unknown driver."""
    folder = experiment / LEADERS
    try:
        names = Files().list(str(folder))
        number = max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)
        if number == 0:
            return 0, FREE
        who = Files().load(str(folder / str(number)), 64).decode("ascii", "replace")
        return number, who if _WHO.fullmatch(who) else f"unknown-{number}"
    except FileNotFoundError:
        return 0, FREE
    except OSError as error:
        raise StorageError(f"'{shown(folder)}' cannot be read: {error.strerror or error}.") from None
