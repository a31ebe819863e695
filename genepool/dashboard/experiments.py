"""The experiments in a folder, and an observer for each that is shown."""

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from genepool.analysis import Observer, WorkerMonitor
from genepool.dashboard import documents
from genepool.dashboard.individual import Details
from genepool.errors import GenepoolError, PopulationFormatError, shown
from genepool.population import Files, read_manifest
from genepool.settings import flat

DEEPEST = 4  # levels of folders in which experiments are found
MOST_EXPERIMENTS = 1000
MOST_OBSERVERS = 24
EVERY = 2.0  # the shortest pause between two refreshes, in seconds
CPU_FACTOR = 100
"""The pause is at least this many times the processor time of the last refresh, so that workers lose almost nothing."""
TIME_FACTOR = 10
"""The pause is at least this many times as long as the last refresh, so that a slow file system is not kept busy."""
LONGEST = 30.0  # the longest pause, in seconds
UNUSED = 30.0  # seconds after its last request until an experiment is no longer refreshed
STATUS_EVERY = 3.0  # seconds until the status is sent again although nothing has changed: times go on
STATUS_CPU_FACTOR = 200
"""After a change, the pause is this many times the processor time of the last status, which reads the whole table."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment in the folder."""

    key: str  # its name in addresses: safe letters, and the same after a restart
    name: str  # its path in the folder, for people
    path: Path


def _found(name: str, path: Path) -> Found:
    return Found(key=hashlib.sha256(os.fsencode(name)).hexdigest()[:12], name=shown(name), path=path)


def experiments_in(place: Path) -> list[Found]:
    """The experiment in a directory, or all experiments in the folders below it."""
    if (place / "experiment.json").is_file():
        return [_found(place.resolve().name or "experiment", place)]
    return sorted(islice(_search(place, place, 0), MOST_EXPERIMENTS), key=lambda one: one.name)


def _search(root: Path, folder: Path, depth: int) -> Iterator[Found]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in inside:
        path = folder / name
        if (path / "experiment.json").is_file():
            yield _found(str(path.relative_to(root)), path)
        elif depth + 1 < DEEPEST and not name.startswith("."):
            yield from _search(root, path, depth + 1)


class StatusFeed:
    """The latest status as JSON, which is made when a client needs it and enough time has passed."""

    def __init__(self, observer: Observer) -> None:
        self._observer, self._one_at_a_time = observer, threading.Lock()
        self._made = self._cpu = 0.0
        self._version = self.text = ""
        self.number = 0  # the number of the text, so that no client receives it twice

    def is_due(self) -> bool:
        """Whether it is time for a new status: sooner if something has changed."""
        wait = STATUS_CPU_FACTOR * self._cpu
        wait = min(wait, LONGEST) if self._version != self._observer.version else max(STATUS_EVERY, wait)
        return not self.number or time.monotonic() - self._made > wait

    def renew(self) -> None:
        """Make a new status, unless another thread has just done so."""
        with self._one_at_a_time:
            if not self.is_due():
                return
            started, self._version = time.thread_time(), self._observer.version
            self.text = msgspec.json.encode(documents.status(self._observer)).decode()
            self._made, self._cpu = time.monotonic(), time.thread_time() - started
            self.number += 1


class ObservedExperiment:
    """One experiment with everything that observes it."""

    def __init__(self, found: Found) -> None:
        self.found, self.observer = found, Observer(found.path)
        self.workers, self.details = WorkerMonitor(self.observer), Details(self.observer)
        self.status = StatusFeed(self.observer)
        self.requested = time.monotonic()
        self.followers = 0  # the number of open live feeds

    def is_in_use(self) -> bool:
        return self.followers > 0 or time.monotonic() - self.requested < UNUSED

    async def keep_refreshing(self) -> None:
        while True:
            needed = self.is_in_use() or self.observer.reading
            await asyncio.sleep(await asyncio.to_thread(self._refresh) if needed else EVERY)

    def _refresh(self) -> float:
        """Refresh once and return the pause before the next time, in seconds."""
        is_first, started, cpu = self.observer.reading, time.monotonic(), time.thread_time()
        self.observer.refresh()
        if is_first:  # it reads everything, which says nothing about the next time
            return EVERY
        wait = max(CPU_FACTOR * (time.thread_time() - cpu), TIME_FACTOR * (time.monotonic() - started))
        return min(max(EVERY, wait), LONGEST)


class Folder:
    """The folder that the dashboard was started on."""

    def __init__(self, place: Path) -> None:
        self.place, self.single = place, (place / "experiment.json").is_file()
        self._observed: dict[str, ObservedExperiment] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        if not place.is_dir():
            fault = "is not a directory; give one that is an experiment or has some."
            raise PopulationFormatError(f"'{shown(place)}' {fault}")

    def experiments(self) -> list[dict[str, Any]]:
        """The document `/api/experiments`; searched again each time, because experiments come and go."""
        found = {one.key: one for one in experiments_in(self.place)}
        for key, one in list(self._observed.items()):
            found.setdefault(key, one.found)  # gone, but what was read of it is still shown
        return [summary(one) for one in sorted(found.values(), key=lambda one: one.name)]

    async def observed(self, key: str) -> ObservedExperiment:
        """An experiment with its observer, which is made at the first request."""
        async with self._one_at_a_time:
            one = self._observed.get(key)
            if one is None:
                one = await asyncio.to_thread(self._open, key)
                self._make_room()
                self._observed[key] = one
                self._tasks[key] = asyncio.get_running_loop().create_task(one.keep_refreshing())
        one.requested = time.monotonic()
        return one

    def _open(self, key: str) -> ObservedExperiment:
        found = next((one for one in experiments_in(self.place) if one.key == key), None)
        if found is None:
            raise PopulationFormatError("There is no such experiment here, or it is gone.")
        return ObservedExperiment(found)

    def _make_room(self) -> None:
        """Drop the observer that has been unused for longest."""
        idle = [key for key, one in self._observed.items() if not one.followers]
        if len(self._observed) >= MOST_OBSERVERS and idle:
            oldest = min(idle, key=lambda key: self._observed[key].requested)
            self._tasks.pop(oldest).cancel()
            del self._observed[oldest]


def summary(found: Found) -> dict[str, Any]:
    """What is known of an experiment without reading its individuals."""
    facts = {"key": found.key, "name": found.name}
    try:
        manifest = read_manifest(Files(), str(found.path))
    except GenepoolError as error:
        return {**facts, "data": "", "created": None, "trouble": shown(str(error))}
    data = str(flat(manifest.settings).get("data.source", ""))
    return {**facts, "data": data, "created": manifest.created, "trouble": ""}
