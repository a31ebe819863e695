"""What a worker knows about the whole population between sweeps: its size, its orphans and its garbage.

A sweep lists everything, so it must not be part of every step. In between, the worker adds its own changes. A small
population is counted at almost every step that trains; with 100,000 individuals, sweeps take a fiftieth of the time.
"""

from __future__ import annotations

import zlib

import msgspec

from genepool.population.directory import names
from genepool.population.directory.files import Files
from genepool.population.directory.shards import Shards, Sweep
from genepool.population.directory.workers import WorkerDirectory
from genepool.population.individual import Census, Individual, State

_INTERVAL = 50  # time between sweeps, in durations of a sweep
_LONGEST_WAIT = 30.0
_OTHERS = 4
_REPORTED = 10_000


class Survey:
    def __init__(self, files: Files, shards: Shards, worker: WorkerDirectory) -> None:
        self._files, self._shards, self._worker = files, shards, worker
        self._census = Census()
        self._next_at = float("-inf")
        self._training = self._alive = 0
        self._orphans: dict[str, Individual] = {}
        self._own: dict[str, Individual] = {}
        self._leftovers: dict[str, Individual] = {}
        self._last_dead: set[str] = set()
        self._reported: set[str] = set()

    def changed(self, old: Individual, new: Individual) -> None:
        self._training += (new.state is State.TRAINING) - (old.state is State.TRAINING)
        self._alive += (new.state is State.ALIVE) - (old.state is State.ALIVE)
        if new.state in (State.DEAD, State.FAILED):
            self._own[new.id] = new

    def settled(self, individual: Individual) -> None:
        """Stop offering an individual that the worker has just dealt with, successfully or not."""
        self._orphans.pop(individual.id, None)
        self._own.pop(individual.id, None)
        self._leftovers.pop(individual.id, None)

    def census(self, *, fresh: bool) -> Census:
        self.refresh(now=fresh)
        return msgspec.structs.replace(
            self._census,
            training=max(0, self._census.training + self._training),
            alive=max(0, self._census.alive + self._alive),
        )

    def living(self) -> int:
        """Return the same for the living alone; every step needs it several times."""
        self.refresh()
        return max(0, self._census.living + self._training + self._alive)

    def orphans(self) -> list[Individual]:
        """Return TRAINING individuals that were abandoned at the latest sweep and not dealt with since."""
        self.refresh()
        return list(self._orphans.values())

    def garbage(self) -> list[Individual]:
        """Return the individuals that this worker ended, and a few that no other worker seems to collect."""
        self.refresh()
        return [*self._own.values(), *list(self._leftovers.values())[:_OTHERS]]

    def refresh(self, *, now: bool = False) -> None:
        start = self._files.monotonic()
        if not now and start < self._next_at:
            return
        sweep = self._shards.sweep()
        end = self._files.monotonic()
        self._next_at = end + min(_INTERVAL * (end - start), _LONGEST_WAIT)
        self._census = sweep.census()
        self._training = self._alive = 0
        self._sort_out(sweep)

    def _sort_out(self, sweep: Sweep) -> None:
        self._report(sweep.foreign)
        owned = [i for i in sweep.individuals if i.state in (State.TRAINING, State.STAGING, State.COLLECTED)]
        abandoned = [individual for individual in owned if self._worker.abandoned(individual)]
        self._worker.monitor.forget_others({individual.owner for individual in owned})
        self._orphans = {i.id: i for i in abandoned if i.state is State.TRAINING}
        dead = {i.id: i for i in sweep.individuals if i.state in (State.DEAD, State.FAILED)}
        # The worker that killed an individual collects it soon; one that two sweeps have shown waits for another.
        waiting = [i for i in dead.values() if i.id in self._last_dead and i.id not in self._own]
        waiting += [i for i in abandoned if i.state is not State.TRAINING]
        self._last_dead = set(dead)
        # Each worker uses another order, or all of them would archive the same individual at the same time.
        waiting.sort(key=lambda individual: zlib.crc32(f"{individual.id}{self._worker.who}".encode()))
        self._leftovers = {individual.id: individual for individual in waiting}

    def _report(self, foreign: list[str]) -> None:
        for place in foreign:
            if place not in self._reported and len(self._reported) < _REPORTED:
                self._reported.add(place)
                newer = names.is_newer(place.partition("/")[2])
                note = "written by a newer release" if newer else "not an individual"
                self._worker.events.found_foreign(names.printable(place), note)
