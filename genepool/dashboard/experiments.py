"""Which experiments there are in a place, and a reader for each that somebody looks at."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from genepool.dashboard.documents import Details
from genepool.dashboard.reader import Reader
from genepool.dashboard.status import Bulletin
from genepool.dashboard.workers import CrewWatch
from genepool.errors import GenepoolError, PopulationFormatError, shown
from genepool.population import Files
from genepool.population.directory.manifest import read_manifest
from genepool.settings import flat

DEEPEST = 4
"""Folders between the place and an experiment."""
MOST_EXPERIMENTS = 1000
MOST_READERS = 24
EVERY = 2.0
"""Seconds between two looks at an experiment at least."""
SHARE = 100
"""The next look waits so many times the processor time of the last one: watching must cost the workers nothing..."""
PATIENCE = 10
"""...and so many times as long as it took: nor must it keep a slow file system busy."""
LONGEST = 30.0
UNWATCHED = 30.0
"""Seconds after which an experiment that nobody asks about is not looked at any more."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment."""

    key: str
    """Its name in addresses: safe letters, the same after a restart."""
    name: str
    """For people: its path in the folder."""
    path: Path


def key_of(name: str) -> str:
    """A name in addresses, whatever letters the path has."""
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:12]


def experiments_in(place: Path) -> list[Found]:
    """The experiment in a directory, or all those in the folders below it."""
    if (place / "experiment.json").is_file():
        name = place.resolve().name or "experiment"
        return [Found(key=key_of(name), name=shown(name), path=place)]
    found: list[Found] = []
    _search(place, place, 0, found)
    return sorted(found, key=lambda one: one.name)


def _search(root: Path, folder: Path, depth: int, found: list[Found]) -> None:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in inside:
        path = folder / name
        if len(found) >= MOST_EXPERIMENTS:
            return
        if (path / "experiment.json").is_file():
            relative = str(path.relative_to(root))
            found.append(Found(key=key_of(relative), name=shown(relative), path=path))
        elif depth + 1 < DEEPEST and not name.startswith("."):
            _search(root, path, depth + 1, found)


class Watched:
    """One experiment with all that looks at it."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.reader = Reader(found.path)
        self.crew = CrewWatch(self.reader)
        self.details = Details(self.reader)
        self.bulletin = Bulletin(self.reader)
        self.asked = time.monotonic()
        self.followers = 0
        """Pages that are told of every change."""

    def is_wanted(self) -> bool:
        """Whether anybody looks."""
        return self.followers > 0 or time.monotonic() - self.asked < UNWATCHED

    async def keep_looking(self) -> None:
        """Looks again and again while somebody wants to know."""
        while True:
            wanted = self.is_wanted() or self.reader.reading
            await asyncio.sleep(await asyncio.to_thread(self._look) if wanted else EVERY)

    def _look(self) -> float:
        """Looks once; how many seconds to wait before the next look."""
        first, began, cpu = self.reader.reading, time.monotonic(), time.thread_time()
        self.reader.refresh()
        if first:  # of everything there is, which says nothing about the next
            return EVERY
        requirements = max(SHARE * (time.thread_time() - cpu), PATIENCE * (time.monotonic() - began))
        return min(max(EVERY, requirements), LONGEST)


class Folder:
    """The place that the dashboard was started on."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.single = (place / "experiment.json").is_file()
        self._watched: dict[str, Watched] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        if not place.is_dir():
            raise PopulationFormatError(f"'{shown(place)}' is not a directory; give an experiment or a folder of some.")

    def experiments(self) -> list[dict[str, Any]]:
        """The document `/api/experiments`; looks anew each time, since experiments come and go."""
        found = {one.key: one for one in experiments_in(self.place)}
        for key, watched in list(self._watched.items()):
            found.setdefault(key, watched.found)  # gone, but there is somebody looking at what was read of it
        return [summary(one) for one in sorted(found.values(), key=lambda one: one.name)]

    async def watched(self, key: str) -> Watched:
        """The reader of an experiment, made when it is first asked for."""
        async with self._one_at_a_time:
            watched = self._watched.get(key)
            if watched is None:
                watched = await asyncio.to_thread(self._begin, key)
                self._make_room()
                self._watched[key] = watched
                self._tasks[key] = asyncio.get_running_loop().create_task(watched.keep_looking())
        watched.asked = time.monotonic()
        return watched

    def _begin(self, key: str) -> Watched:
        found = next((one for one in experiments_in(self.place) if one.key == key), None)
        if found is None:
            raise PopulationFormatError("There is no such experiment here, or not any more.")
        return Watched(found)

    def _make_room(self) -> None:
        """Forgets whom nobody has asked about for longest."""
        idle = [key for key, one in self._watched.items() if not one.followers]
        if len(self._watched) >= MOST_READERS and idle:
            oldest = min(idle, key=lambda key: self._watched[key].asked)
            self._tasks.pop(oldest).cancel()
            del self._watched[oldest]


def summary(found: Found) -> dict[str, Any]:
    """What is told of an experiment without reading its individuals."""
    facts = {"key": found.key, "name": found.name}
    try:
        manifest = read_manifest(Files(), str(found.path))
    except GenepoolError as error:
        return {**facts, "data": "", "created": None, "trouble": shown(str(error))}
    return {
        **facts,
        "data": str(flat(manifest.settings).get("data.source", "")),
        "created": manifest.created,
        "trouble": "",
    }
