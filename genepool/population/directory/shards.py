"""The shards of a population directory: listing names, drawing from them, and the one rename that commits a change;
and what a worker knows from its last listing of all of them.

Absence from a listing proves nothing and is never acted on. A listing of up to 300 entries is one system call and so a
true snapshot on a local disk. On a network it may be a minute old, which costs lost races but no individuals.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterator, Sequence

import msgspec

from genepool.errors import ConcurrencyError, PopulationTooSmallError, StorageError
from genepool.population.directory import names
from genepool.population.directory.files import UNCERTAIN, Files
from genepool.population.directory.workers import WorkerDirectory
from genepool.population.individual import Census, Individual, State

_TRIES = 3
_DRAWS = 16
_DEVIATIONS = 2.0
"""Few shards are this many standard deviations fuller than the mean; those that are, are noticed when drawn."""
_INTERVAL = 50  # time between sweeps, in durations of a sweep
_LONGEST_WAIT = 30.0
_OTHERS = 4
_REPORTED = 10_000


def commit(files: Files, parent: str, old: str, new: str) -> None:
    """Rename inside one directory; if the outcome is uncertain, list the directory to find out. The new name belongs to
    the caller alone, so if it is listed, the rename was done, whatever was reported."""
    fault: OSError | None = None
    for _ in range(_TRIES):
        try:
            files.rename(f"{parent}/{old}", f"{parent}/{new}")
            return
        except OSError as error:
            fault = error
        entries = _entries_after(files, parent, fault)
        if old not in entries:
            if new in entries:
                return
            raise ConcurrencyError(f"{old} in {parent} was changed by another worker; choose again.") from fault
        if fault.errno not in UNCERTAIN:
            break
    raise StorageError(f"{old} in {parent} cannot be renamed: {fault}; try again later.") from fault


def _entries_after(files: Files, parent: str, fault: OSError) -> list[str]:
    try:
        return files.list(parent)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConcurrencyError(f"{parent} was changed by another worker; choose again.") from error
    except OSError as error:
        raise StorageError(f"The outcome of a rename in {parent} is unknown ({fault}, then {error}).") from error


class Sweep(msgspec.Struct, kw_only=True):
    individuals: list[Individual]
    foreign: list[str]  # `<shard>/<name>` of each entry whose name is not an individual's

    def census(self) -> Census:
        return Census.of(self.individuals, foreign=len(self.foreign))


Known = dict[tuple[int, str], Individual]  # individuals of a sweep, by the number of the shard and the name in it


class Shards:
    def __init__(self, files: Files, path: str, count: int) -> None:
        self._files, self._count = files, count
        self._paths = [f"{path}/{names.shard_name(number)}" for number in range(count)]
        self._by_tail: dict[str, str] = {}
        self._fullest = 0

    def shard(self, identity: str) -> str:
        """Return the path of the shard that holds an individual in all its states."""
        tail = identity[-names.TAIL_LENGTH :]
        if (path := self._by_tail.get(tail)) is None:
            path = self._by_tail[tail] = self._paths[names.shard_of(identity, self._count)]
        return path

    def path(self, individual: Individual) -> str:
        """Return the path of an individual, valid as long as it stays in this state."""
        return f"{self.shard(individual.id)}/{names.encode(individual)}"

    def move(self, old: Individual, new: Individual) -> None:
        """Compare and swap: exactly one of all callers that start from the same snapshot succeeds."""
        commit(self._files, self.shard(old.id), names.encode(old), names.encode(new))

    def present(self, individual: Individual) -> bool:
        return names.encode(individual) in self._list(self.shard(individual.id))

    def find(self, identity: str) -> Individual | None:
        found = map(names.parse, self._list(self.shard(identity)))
        return next((individual for individual in found if individual and individual.id == identity), None)

    def sweep(self) -> Sweep:
        return self.sweep_again({})[0]

    def sweep_again(self, known: Known) -> tuple[Sweep, Known]:
        """List every shard, given the individuals known from the last time: their names are not parsed again."""
        found, there = Sweep(individuals=[], foreign=[]), Known()
        for number, entries in enumerate(self._list_all()):
            for name in entries:
                place = number, name
                individual = known.get(place) or self._parse(name, number)
                if individual is None:
                    found.foreign.append(f"{names.shard_name(number)}/{name}")
                else:
                    found.individuals.append(individual)
                    there[place] = individual
        found.individuals.sort(key=lambda individual: individual.id)
        return found, there

    def draw(self, rng: random.Random, living: int) -> Individual:
        """Draw a living individual uniformly without listing every shard; `living` is their approximate number. This
        draws a shard and one of `slots` slots, and draws both again if the slot is empty. All shards have the same
        number of slots, so every occupied slot is equally likely. Nothing here depends on when a sweep was made: with
        one worker the same generator draws the same individuals."""
        mean = living / self._count
        slots = max(self._fullest, round(mean + _DEVIATIONS * math.sqrt(mean)) + 1)
        for _ in range(_DRAWS if self._count > 1 and mean > 1 else 0):
            number, slot = rng.randrange(self._count), rng.randrange(slots)
            entries = self._list(self._paths[number])
            if slot >= len(entries) <= slots:
                continue
            entries = names.living(entries)
            if len(entries) > slots:
                self._fullest = slots = len(entries)
            elif slot < len(entries):
                individual = self._parse(names.by_birth(entries)[slot], number)
                if individual is not None:
                    return individual
        return self.draw_from_all(rng)

    def draw_from_all(self, rng: random.Random) -> Individual:
        """Draw from a listing of every shard, for a population that is small or of unknown size."""
        shards = enumerate(self._list_all())
        candidates = [(number, name) for number, entries in shards for name in names.by_birth(names.living(entries))]
        while candidates:
            place = rng.randrange(len(candidates))
            number, name = candidates.pop(place)
            individual = self._parse(name, number)
            if individual is not None:
                return individual
        raise PopulationTooSmallError("The population has no living individual to draw; create the first ones.")

    def invalidate_caches(self, identity: Iterator[str], who: str) -> None:
        """Make and remove an entry in every shard, so that no cache, here or elsewhere, keeps an old listing of it. The
        entry looks like one that is being collected: if this process crashes in between, it is collected."""
        for path in self._paths:
            name = f"{path}/{names.encode(Individual(id=next(identity), state=State.COLLECTED, owner=who))}"
            try:
                self._files.mkdir(name)
                self._files.rmdir(name)
            except OSError as error:
                raise StorageError(f"{path} cannot be changed: {error}; try again later.") from error

    def _list(self, path: str) -> list[str]:
        try:
            return self._files.list(path)
        except OSError as error:
            raise StorageError(f"{path} cannot be listed: {error}; check the mount and its permissions.") from error

    def _list_all(self) -> Iterator[Sequence[str]]:
        try:
            yield from self._files.list_each(self._paths)
        except OSError as error:
            raise StorageError(f"A shard cannot be listed: {error}; check the mount and its permissions.") from error

    def _parse(self, name: str, number: int) -> Individual | None:
        individual = names.parse(name)
        return individual if individual and self.shard(individual.id) == self._paths[number] else None


class Survey:
    """What a worker knows about the whole population between sweeps: its size, its orphans and its garbage.

    A sweep lists everything, so it must not be part of every step. In between, the worker adds its own changes. A small
    population is counted at almost every step that trains; with 100,000 individuals, sweeps take a fiftieth of the
    time.
    """

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
