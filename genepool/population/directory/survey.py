"""What a worker knows about the whole population between sweeps: its size, its orphans and its garbage.

A sweep looks at everything, so it must not be part of every step: the next one waits fifty times as long as the last
one took, at most 30 s. Between sweeps the worker adds its own changes. Small populations are thus counted afresh at
almost every step that trains, and with 100,000 individuals sweeping costs at most a fiftieth of the time.
"""

from __future__ import annotations

import zlib

from genepool.population.directory import names
from genepool.population.directory.files import Files
from genepool.population.directory.shards import Shards, Sweep
from genepool.population.directory.workers import Presence
from genepool.population.individual import Census, Individual, State

_SHARE = 50
_LONGEST_WAIT = 30.0
_OTHERS = 4
_REPORTED = 10_000


class Survey:
    """The latest sweep and what followed from it."""

    def __init__(self, files: Files, shards: Shards, presence: Presence) -> None:
        self._files = files
        self._shards = shards
        self._presence = presence
        self._census = Census()
        self._next_at = float("-inf")
        self._training = self._alive = 0
        self._orphans: dict[str, Individual] = {}
        self._own: dict[str, Individual] = {}
        self._leftovers: dict[str, Individual] = {}
        self._last_dead: set[str] = set()
        self._reported: set[str] = set()

    def changed(self, old: Individual, new: Individual) -> None:
        """Takes note of the worker's own successful change."""
        self._training += (new.state is State.TRAINING) - (old.state is State.TRAINING)
        self._alive += (new.state is State.ALIVE) - (old.state is State.ALIVE)
        if new.state in (State.DEAD, State.FAILED):
            self._own[new.id] = new

    def settled(self, individual: Individual) -> None:
        """Stops offering an individual that was just dealt with, whatever came of it."""
        self._orphans.pop(individual.id, None)
        self._own.pop(individual.id, None)
        self._leftovers.pop(individual.id, None)

    def census(self, *, fresh: bool) -> Census:
        """The latest count plus own changes."""
        self.refresh(now=fresh)
        return Census(
            training=max(0, self._census.training + self._training),
            alive=max(0, self._census.alive + self._alive),
            dead=self._census.dead,
            failed=self._census.failed,
            quarantined=self._census.quarantined,
            foreign=self._census.foreign,
        )

    def living(self) -> int:
        """The same for the living alone; asked several times a step."""
        self.refresh()
        return max(0, self._census.living + self._training + self._alive)

    def orphans(self) -> list[Individual]:
        """TRAINING individuals that were abandoned at the latest sweep and not dealt with since."""
        self.refresh()
        return list(self._orphans.values())

    def garbage(self) -> list[Individual]:
        """The worker's own dead, and a few that nobody seems to collect: the dead of the dead, half-made, half-gone."""
        self.refresh()
        return [*self._own.values(), *list(self._leftovers.values())[:_OTHERS]]

    def refresh(self, *, now: bool = False) -> None:
        """Sweeps if it is time."""
        start = self._files.monotonic()
        if not now and start < self._next_at:
            return
        sweep = self._shards.sweep()
        end = self._files.monotonic()
        self._next_at = end + min(_SHARE * (end - start), _LONGEST_WAIT)
        self._census = sweep.census()
        self._training = self._alive = 0
        self._sort_out(sweep, self._presence)

    def _sort_out(self, sweep: Sweep, presence: Presence) -> None:
        self._report(sweep.foreign, presence)
        owned = [i for i in sweep.individuals if i.state in (State.TRAINING, State.STAGING, State.COLLECTED)]
        abandoned = [individual for individual in owned if presence.abandoned(individual)]
        presence.forget_others({individual.owner for individual in owned})
        self._orphans = {i.id: i for i in abandoned if i.state is State.TRAINING}
        dead = {i.id: i for i in sweep.individuals if i.state in (State.DEAD, State.FAILED)}
        # Whoever killed it collects it soon; what two sweeps have shown is waiting for somebody else.
        waiting = [i for i in dead.values() if i.id in self._last_dead and i.id not in self._own]
        waiting += [i for i in abandoned if i.state is not State.TRAINING]
        self._last_dead = set(dead)
        # Each worker begins elsewhere, or all of them would archive the same individual at the same time.
        waiting.sort(key=lambda individual: zlib.crc32(f"{individual.id}{presence.who}".encode()))
        self._leftovers = {individual.id: individual for individual in waiting}

    def _report(self, foreign: list[str], presence: Presence) -> None:
        for place in foreign:
            if place not in self._reported and len(self._reported) < _REPORTED:
                self._reported.add(place)
                newer = names.is_newer(place.partition("/")[2])
                note = "written by a newer release" if newer else "not an individual"
                presence.events.note("foreign", name=names.printable(place), note=note)
