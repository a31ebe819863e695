"""The shards of a population directory: listing names, drawing from them, and the one rename that commits a change.

Absence from a listing proves nothing and is never acted on. A listing of up to 300 entries is one system call and so a
true snapshot on a local disk; with a network it may be a minute old, which costs lost races, not individuals.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec

from genepool.errors import ConcurrencyError, PopulationTooSmallError, StorageError
from genepool.population.directory import names
from genepool.population.directory.files import UNCERTAIN, Files
from genepool.population.individual import Census, Individual, State

_TRIES = 3
_DRAWS = 16
_DEVIATIONS = 2.0
"""So many standard deviations above the mean few shards are; one that is all the same is noticed when drawn."""
_id_in = itemgetter(slice(names.PREFIX_LENGTH, names.PREFIX_LENGTH + names.ID_LENGTH))


def _by_birth(names: list[str]) -> list[str]:
    """Not in the order of the directory's hash table: the same draws then find the same individuals."""
    return sorted(names, key=_id_in)


def commit(files: Files, parent: str, old: str, new: str) -> None:
    """Renames inside one directory; when the answer is not a plain yes, finds out by listing what happened.

    The new name belongs to the caller alone, so seeing it means that the rename was done, whatever was reported.
    """
    fault: OSError | None = None
    for _ in range(_TRIES):
        try:
            files.rename(f"{parent}/{old}", f"{parent}/{new}")
            return
        except OSError as error:
            fault = error
        names = _names_after(files, parent, fault)
        if old not in names:
            if new in names:
                return
            raise ConcurrencyError(f"{old} in {parent} has been changed by somebody else; choose again.") from fault
        if fault.errno not in UNCERTAIN:
            break
    raise StorageError(f"{old} in {parent} cannot be renamed: {fault}; try again later.") from fault


def _names_after(files: Files, parent: str, fault: OSError) -> list[str]:
    try:
        return files.list(parent)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConcurrencyError(f"{parent} has been changed by somebody else; choose again.") from error
    except OSError as error:
        raise StorageError(f"What became of a rename in {parent} is not known ({fault}, then {error}).") from error


class Sweep(msgspec.Struct, kw_only=True):
    """One look at all shards."""

    individuals: list[Individual]
    foreign: list[str]
    """`<shard>/<name>` of what is not an individual's directory, as far as names tell."""

    def census(self) -> Census:
        """The counts."""
        counts = dict.fromkeys(State, 0)
        for individual in self.individuals:
            counts[individual.state] += 1
        return Census(
            training=counts[State.TRAINING],
            alive=counts[State.ALIVE],
            dead=counts[State.DEAD],
            failed=counts[State.FAILED],
            quarantined=counts[State.QUARANTINED],
            foreign=len(self.foreign),
        )


Known = dict[tuple[int, str], Individual]
"""Who was found, by the number of the shard and the name in it."""


class Shards:
    """All shard directories of one population."""

    def __init__(self, files: Files, path: str, count: int) -> None:
        self._files = files
        self._count = count
        self._paths = [f"{path}/{names.shard_name(number)}" for number in range(count)]
        self._by_tail: dict[str, str] = {}
        self._fullest = 0

    def shard(self, identity: str) -> str:
        """The path of the shard that holds an individual in all its states."""
        tail = identity[-names.TAIL_LENGTH :]
        if (path := self._by_tail.get(tail)) is None:
            path = self._by_tail[tail] = self._paths[names.shard_of(identity, self._count)]
        return path

    def path(self, individual: Individual) -> str:
        """The path of an individual as long as it stays in this state."""
        return f"{self.shard(individual.id)}/{names.encode(individual)}"

    def move(self, old: Individual, new: Individual) -> str:
        """The compare-and-swap: exactly one of all who start from the same snapshot wins. Returns the new name."""
        name = names.encode(new)
        commit(self._files, self.shard(old.id), names.encode(old), name)
        return name

    def present(self, individual: Individual) -> bool:
        """Whether a listing made now shows the individual in this state."""
        return names.encode(individual) in self._list(self.shard(individual.id))

    def find(self, identity: str) -> Individual | None:
        """One individual, by a listing of its shard."""
        for name in self._list(self.shard(identity)):
            individual = names.parse(name)
            if individual is not None and individual.id == identity:
                return individual
        return None

    def sweep(self) -> Sweep:
        """Looks at every shard."""
        return self.sweep_again({})[0]

    def sweep_again(self, known: Known) -> tuple[Sweep, Known]:
        """Looks at every shard, and tells who was where for the next time: a name that is known is not parsed."""
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
        """One living individual, each equally likely, without listing everything; needs to know roughly how many live.

        A shard and one of `slots` slots are drawn; an empty slot means drawing both again. Since every shard has the
        same number of slots, every occupied one is equally likely. Nothing here depends on when a sweep was made: with
        one worker the same generator draws the same individuals.
        """
        mean = living / self._count
        slots = max(self._fullest, round(mean + _DEVIATIONS * math.sqrt(mean)) + 1)
        for _ in range(_DRAWS if self._count > 1 and mean > 1 else 0):
            number, slot = rng.randrange(self._count), rng.randrange(slots)
            names = self._list(self._paths[number])
            if slot >= len(names) <= slots:
                continue
            names = self._living(names)
            if len(names) > slots:
                self._fullest = slots = len(names)
            elif slot < len(names):
                individual = self._parse(_by_birth(names)[slot], number)
                if individual is not None:
                    return individual
        return self.draw_from_all(rng)

    def draw_from_all(self, rng: random.Random) -> Individual:
        """The same by listing everything, for a population that is small or whose size is not known."""
        candidates: list[tuple[int, str]] = []
        for number, entries in enumerate(self._list_all()):
            candidates.extend((number, name) for name in _by_birth(self._living(entries)))
        while candidates:
            place = rng.randrange(len(candidates))
            number, name = candidates[place]
            individual = self._parse(name, number)
            if individual is not None:
                return individual
            del candidates[place]
        raise PopulationTooSmallError("The population has no living individual to draw; make the first ones.")

    def poke(self, identity: Iterator[str], who: str) -> None:
        """Changes every shard and changes it back, so that no cache, here or elsewhere, keeps an old listing of it.

        The entry looks like one being collected: if we crash in between, it is collected.
        """
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
            raise StorageError(f"{path} cannot be listed: {error}; check the mount and the rights.") from error

    def _list_all(self) -> Iterator[Sequence[str]]:
        try:
            yield from self._files.list_each(self._paths)
        except OSError as error:
            raise StorageError(f"A shard cannot be listed: {error}; check the mount and the rights.") from error

    def _living(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name[:3] in ("A1_", "T1_")]

    def _parse(self, name: str, number: int) -> Individual | None:
        individual = names.parse(name)
        if individual is None or self.shard(individual.id) != self._paths[number]:
            return None
        return individual
