"""The machine's limit: the system calls of evolutionary steps, replayed without anything around them.

A worker's calls are recorded in one population and replayed with the same arguments in a twin of it that was seeded
with the same names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.simultaneous import Lap, Work, timed, total
from benchmarks.steps import WARM_UP, Stepper
from genepool.population import Files
from genepool.population.directory.files import Durability

Call = tuple[str, tuple[Any, ...]]
"""The name of a call of `Files` and its arguments; of `open` also the descriptor that it gave."""
Ready = tuple[bool, Callable[..., Any], tuple[Any, ...]]
"""Whether the first argument is a descriptor, a function of `os`, and its arguments."""
TURN = 20
"""Steps."""


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fsync(descriptor)
    os.close(descriptor)


BY_PATH: dict[str, Callable[..., Any]] = {
    "list": os.listdir,
    "mkdir": os.mkdir,
    "rename": os.rename,
    "link": os.link,
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "fsync_dir": _sync_directory,
}
BY_DESCRIPTOR: dict[str, Callable[..., Any]] = {
    "write": os.write,
    "read": os.read,
    "read_at": os.pread,
    "size": os.fstat,
    "fsync": os.fsync,
    "close": os.close,
}


class Recorder(Files):
    """Makes calls and records them."""

    def __init__(self, durability: Durability) -> None:
        super().__init__(durability=durability, urandom=self._random)
        self.calls: list[Call] = []
        for name in (*BY_PATH, *BY_DESCRIPTOR):
            setattr(self, name, self._recorded(name, getattr(self, name)))

    def taken(self) -> list[Call]:
        """Return the calls since the last time."""
        taken, self.calls = self.calls, []
        return taken

    def _recorded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def record(*args: Any) -> Any:
            self.calls.append((name, args))
            return call(*args)

        return record

    def _random(self, length: int) -> bytes:
        self.calls.append(("urandom", (length,)))
        return os.urandom(length)

    def open(self, path: str, flags: int) -> int:
        descriptor = -1
        try:
            descriptor = super().open(path, flags)
        finally:
            self.calls.append(("open", (path, flags, descriptor)))
        return descriptor


class Replay:
    """Repeats recorded calls in another directory."""

    def __init__(self, old: Path, new: Path) -> None:
        self._old, self._new = str(old), str(new)
        self._descriptors: dict[int, int] = {}

    def ready(self, calls: list[Call]) -> list[Ready]:
        """Prepare the calls, so that only making them is left."""
        return [_moved(call, self._old, self._new) for call in calls]

    def run(self, calls: list[Ready]) -> int:
        """Make the calls. Those that failed when recorded fail again."""
        descriptors = self._descriptors
        for has_descriptor, call, args in calls:
            with suppress(OSError):
                if has_descriptor:
                    call(descriptors[args[0]], *args[1:])
                elif call is os.open:
                    descriptors[args[2]] = os.open(args[0], args[1], 0o666)
                else:
                    call(*args)
        return len(calls)


def _moved(call: Call, old: str, new: str) -> Ready:
    name, args = call
    args = tuple(new + value[len(old) :] if isinstance(value, str) else value for value in args)
    others = {**BY_PATH, "open": os.open, "urandom": os.urandom}
    return name in BY_DESCRIPTOR, BY_DESCRIPTOR.get(name) or others[name], args


@dataclass(frozen=True)
class BesideRaw:
    """The job of one process: a worker's steps in its own population, alternating with the same calls in the twin.

    The periods are short, so that other load affects both alike. Recording costs about 1 % of a step.
    """

    root: Path
    twin: Path
    durability: Durability

    def prepare(self) -> Work:
        files = Recorder(self.durability)
        replay = Replay(self.root, self.twin)
        stepper = Stepper(self.root, files)
        stepper.steps(WARM_UP)
        replay.run(replay.ready(files.taken()))

        def turn() -> tuple[Lap, Lap]:
            steps = timed(lambda: stepper.steps(TURN))
            calls = replay.ready(files.taken())
            return steps, timed(lambda: replay.run(calls))._replace(count=steps.count)

        def work(seconds: float) -> list[Lap]:
            end = time.perf_counter() + seconds
            turns = [turn()]
            while time.perf_counter() < end:
                turns.append(turn())
            return [total(laps) for laps in zip(*turns, strict=True)]

        return work
