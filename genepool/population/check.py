"""The invariants of the store, checked on a stopped or a running directory.

    I1   a finished individual is in the population or the archive     I8   the size is within its bounds (if given)
    I2   an individual is in one place                                 I9   nothing stale is left (if settled)
    I3   results are complete, hashes match, fitness is the name's     I10  foreign entries are counted, and harmless
    I4   the states of an individual form a path, claims never fall    I11  no space is leaked (if settled)
    I5   after a takeover the former owner changes nothing             I12  an individual that was born is somewhere
    I6   an individual in training has what it inherits                I13  settings and experiment are the right ones
    I7   every parent is known

On a running directory a finding counts only if a second look confirms it: absence from one listing proves nothing, and
an individual that changes while it is read is not damaged.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from genepool.errors import ConcurrencyError, DataError
from genepool.population.directory import names
from genepool.population.directory.files import Files
from genepool.population.directory.log import ArchiveReader, Event, read_events
from genepool.population.directory.manifest import config_versions
from genepool.population.directory.view import DirectoryView
from genepool.population.individual import Birth, Census, Fossil, Individual, State

Events = list[tuple[str, Event]]  # workers, and what they did


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    invariant: str
    place: str
    text: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    violations: list[Violation]
    foreign: list[str]  # entries that are not individuals: reported, never touched
    damaged_lines: list[str]  # torn or damaged lines of archives: expected if a worker crashed while writing one
    census: Census
    fossils: int

    def __bool__(self) -> bool:
        return not self.violations


def check_directory(
    path: str | Path,
    *,
    files: Files | None = None,
    settled: bool = False,
    bounds: tuple[int, int] | None = None,
    finished: Mapping[str, float] | None = None,
) -> Report:
    """Check a population directory without changing it. If `settled`, workers had two leases to clean up, so nothing
    incomplete may be left. `bounds` are the least and the greatest permitted size. `finished` maps IDs whose `finish`
    is known to have succeeded to their fitness."""
    inspection = _Inspection(DirectoryView.open(path, files=files), files or Files(), settled=settled)
    return inspection.run(bounds, finished or {})


class _Inspection:
    def __init__(self, view: DirectoryView, files: Files, *, settled: bool) -> None:
        self._view, self._files, self._settled = view, files, settled
        self._root = str(view.path)
        self._found: list[Violation] = []
        self._births: dict[str, Birth] = {}
        self._versions = set(config_versions(files, self._root))

    def run(self, bounds: tuple[int, int] | None, finished: Mapping[str, float]) -> Report:
        events = list(read_events(self._files, f"{self._root}/workers"))
        sweep = self._view.sweep()
        archives = ArchiveReader(self._files, f"{self._root}/workers")
        fossils = archives.fossils()
        for place in archives.contradictions:
            self._broken("I1", f"workers/{place}", "two archived records of one individual contradict each other")
        for individual in sweep.individuals:
            self._inspect(individual)
        self._one_place(sweep.individuals)
        self._none_missing(events, finished, sweep.individuals, fossils)
        self._as_acknowledged(finished, sweep.individuals, fossils)
        self._path(events)
        living = sweep.census().living
        if bounds is not None and not bounds[0] <= living <= bounds[1]:
            self._broken("I8", "pop", f"{living} individuals are living; expected {bounds[0]} to {bounds[1]}")
        return Report(
            violations=self._found,
            foreign=[names.printable(place) for place in sweep.foreign],
            damaged_lines=archives.damaged,
            census=sweep.census(),
            fossils=len(fossils),
        )

    def _broken(self, invariant: str, place: str, text: str) -> None:
        self._found.append(Violation(invariant=invariant, place=place, text=text))

    # Each individual.

    def _inspect(self, individual: Individual) -> None:
        state, place = individual.state, self._place(individual)
        if state in (State.STAGING, State.COLLECTED):
            if self._settled:
                self._broken("I9", place, "left by a creator or collector that no longer runs")
            return
        if state is State.QUARANTINED:
            return
        birth = self._reading("I13", individual, lambda: self._view.read_birth(individual))
        if birth is not None:
            self._births[individual.id] = birth
            if birth.settings_version not in self._versions:
                missing = f"refers to version {birth.settings_version} of the settings, which does not exist"
                self._broken("I13", place, missing)
        if state in (State.ALIVE, State.DEAD):
            self._reading("I3", individual, lambda: self._view.verify(individual))
        elif state is State.TRAINING and birth is not None:
            self._reading("I6", individual, lambda: self._view.inherited_weights(individual))

    def _reading(self, invariant: str, individual: Individual, read: Callable[[], object]) -> Birth | None:
        try:
            found = read()
        except ConcurrencyError:
            return None
        except DataError as error:
            self._broken(invariant, self._place(individual), str(error))
            return None
        return found if isinstance(found, Birth) else None

    def _place(self, individual: Individual) -> str:
        shard = names.shard_name(names.shard_of(individual.id, self._view.manifest.shards))
        return f"pop/{shard}/{names.encode(individual)}"

    # All of them together.

    def _one_place(self, individuals: list[Individual]) -> None:
        counts = collections.Counter(individual.id for individual in individuals)
        twins = [individual for individual in individuals if counts[individual.id] > 1]
        again = collections.Counter(individual.id for individual in self._view.snapshot()) if twins else {}
        for individual in twins:
            if again[individual.id] > 1:
                self._broken("I2", self._place(individual), "the individual is in two places")

    def _none_missing(
        self, events: Events, finished: Iterable[str], individuals: list[Individual], fossils: dict[str, Fossil]
    ) -> None:
        wanted = dict(self._expected(events, finished, fossils))
        missing = set(wanted) - {individual.id for individual in individuals} - set(fossils)
        if missing:
            missing -= {individual.id for individual in self._view.snapshot()}
            missing -= {fossil.id for fossil in self._view.fossils()}
        for identity in sorted(missing):
            invariant, text = wanted[identity]
            self._broken(invariant, identity, text)

    def _expected(
        self, events: Events, finished: Iterable[str], fossils: dict[str, Fossil]
    ) -> Iterator[tuple[str, tuple[str, str]]]:
        for birth in [*self._births.values(), *(fossil.birth for fossil in fossils.values())]:
            for parent in birth.parents:
                yield parent, ("I7", f"the parent of {birth.id} is neither in the population nor in the archive")
        for who, event in events:
            if event.what == "create":
                yield event.id, ("I12", f"worker {who} created it, but it is nowhere")
            elif event.what == "finish":
                yield event.id, ("I1", f"worker {who} finished it, but it is nowhere")
        for identity in finished:
            yield identity, ("I1", "it was finished, but it is nowhere")

    def _as_acknowledged(
        self, finished: Mapping[str, float], individuals: list[Individual], fossils: dict[str, Fossil]
    ) -> None:
        known = [(i.id, i.fitness, self._place(i)) for i in individuals if i.state in (State.ALIVE, State.DEAD)]
        known += [(f.id, f.result.fitness, f.id) for f in fossils.values() if f.result is not None]
        for identity, fitness, place in known:
            seen = finished.get(identity)
            if seen is not None and fitness is not None and not names.same_fitness(seen, fitness):
                self._broken("I1", place, f"it was finished with fitness {seen}, but another result took its place")

    def _path(self, events: Events) -> None:
        claims: dict[tuple[str, str], int] = {}
        for who, event in events:
            if not event.claim:
                continue
            if event.claim < claims.get((who, event.id), 0):
                self._broken("I4", event.id, f"worker {who} returned it to the earlier claim {event.claim}")
            claims[who, event.id] = event.claim
        attempts: dict[str, set[str]] = collections.defaultdict(set)
        for _, event in events:
            if event.what == "finish":
                attempts[event.id].add(event.attempt)
        for identity, several in attempts.items():
            if len(several) > 1:
                self._broken("I5", identity, f"attempts {', '.join(sorted(several))} were all published")
