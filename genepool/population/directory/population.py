"""A population kept in a directory that any number of workers share, on one machine or on many.

The only commit is one rename of one directory inside its shard. Everything else is prepared before it or follows from
it, so a crash between any two system calls leaves either the old state or the new one, and at most some garbage.
"""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from genepool.errors import ConcurrencyError, GenepoolError, PopulationTooSmallError, StorageError
from genepool.population.contract import Metrics, NamedData, Population
from genepool.population.directory import manifest as manifests
from genepool.population.directory import names
from genepool.population.directory.contents import Damaged
from genepool.population.directory.files import Files
from genepool.population.directory.log import in_a_line
from genepool.population.directory.manifest import DEFAULT_LEASE, Manifest, Settings
from genepool.population.directory.survey import Survey
from genepool.population.directory.view import DirectoryView
from genepool.population.directory.workers import WorkerDirectory
from genepool.population.directory.writer import Writer, make_result
from genepool.population.individual import FREE, STRIKES, Birth, Census, Checkpoint, Fossil, Individual, Result, State

_ENDS = {State.DEAD: "kill", State.FAILED: "fail", State.QUARANTINED: "quarantine"}


class DirectoryPopulation(DirectoryView, Population):
    """One worker's view of a population directory; `establish` creates one, `open` joins it."""

    def __init__(self, path: str | Path, manifest: Manifest, files: Files) -> None:
        super().__init__(path, manifest, files)
        _prepare(files, self._root, manifest)
        self._worker = WorkerDirectory(files, f"{path}/workers", manifest.lease)
        self.who = self._worker.who
        self._survey = Survey(files, self._shards, self._worker)
        self._writer = Writer(files, self._shards)
        self._ids = self._draw_ids()
        # The birth record written last. Birth records never change, so it need not be read back.
        self._newborn: Birth | None = None
        # Individuals with more than one plain attempt of this worker inside: tidying them needs a listing.
        self._untidy: set[str] = set()
        # The individual whose result was written last, successfully or not.
        self._tried: Individual | None = None

    @classmethod
    def establish(
        cls,
        path: str | Path,
        *,
        population_size: int,
        lease: float = DEFAULT_LEASE,
        settings: Settings | None = None,
        tunable: Settings | None = None,
        files: Files | None = None,
    ) -> Manifest:
        """Publish an experiment in an existing directory; return its manifest, which may be another process's."""
        files = files or Files()
        chosen = {"settings": settings or {}, "tunable": tunable or {}}
        made = manifests.create_manifest(files, str(path), population_size=population_size, lease=lease, **chosen)
        _prepare(files, str(path), made)
        return made

    def _draw_ids(self) -> Iterator[str]:
        # Never the same millisecond twice, so that the births of one worker are in the order of their IDs.
        last = 0
        while True:
            last = max(last + 1, int(self._files.wall() * 1000))
            yield names.make_id(last, self._files.urandom(10))

    # Looking.

    def sample(self, rng: random.Random) -> Individual:
        try:
            return self._shards.draw(rng, self._survey.living())
        except PopulationTooSmallError:
            # An unchanged directory may be cached for long: it counts as empty only after every cache was invalidated.
            self._shards.invalidate_caches(self._ids, self.who)
            return self._shards.draw_from_all(rng)

    def census(self, *, fresh: bool = False) -> Census:
        return self._survey.census(fresh=fresh)

    def size(self) -> int:
        return self._survey.living()

    def orphans(self) -> list[Individual]:
        return self._survey.orphans()

    def garbage(self) -> list[Individual]:
        spare = self._writer.spare
        return [individual for individual in self._survey.garbage() if individual != spare]

    # Birth.

    def create(self, birth: Birth, *, parents: tuple[Individual, ...] = ()) -> Individual:
        staging = Individual(id=self._next_id(), state=State.STAGING, owner=self.who)
        heritage = self._heritage(parents)
        record = msgspec.structs.replace(
            birth,
            dna=msgspec.Raw(in_a_line(bytes(birth.dna))),
            id=staging.id,
            experiment=self.manifest.uuid,
            created=round(self._files.wall(), 3),
            inherits=tuple(sha256 for _, sha256 in heritage),
        )
        try:
            self._writer.write_staging(staging, record, [path for path, _ in heritage])
        except OSError as error:
            # A sweep finds the rest as this worker's garbage. From the rename on, nothing may be removed under the old
            # name: if the rename was done after all, a client's cache may lead that name to the new directory.
            with contextlib.suppress(OSError):
                self._files.remove_tree(self._shards.path(staging))
            raise self._lost_parents(parents, error) from error
        if len(heritage) > 1:
            self._untidy.add(staging.id)
        self._newborn = record
        return self._move("create", staging, staging.published(), sync=True)

    def _next_id(self) -> str:
        # In the shard of the spare directory, because the only commit is a rename inside one shard.
        identity, spare = next(self._ids), self._writer.spare
        return names.beside(spare.id, identity) if spare else identity

    def _birth_of_own(self, individual: Individual) -> Birth | None:
        # Damage to the file is found when the file is needed: for a parent's DNA or a fossil. If nothing is inherited,
        # the record is read after all, because no other read would reveal a takeover.
        newborn = self._newborn
        return newborn if newborn and newborn.id == individual.id and newborn.inherits else None

    def _heritage(self, parents: tuple[Individual, ...]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for parent in parents:
            weights = self.read_result(parent).files.get(names.WEIGHTS)
            if weights is None:
                break
            path = f"{self._shards.path(parent)}/{names.of_attempt(parent.attempt, names.WEIGHTS)}"
            found.append((path, weights.sha256))
        return found

    def _lost_parents(self, parents: tuple[Individual, ...], error: OSError) -> StorageError:
        if error.errno == errno.ENOENT:
            for parent in parents:
                self.weights(parent)  # raises ConcurrencyError if the parent is gone, and quarantines a damaged one
        return self._storage_error(error)

    # Training.

    def save_checkpoint(self, individual: Individual, checkpoint: Checkpoint) -> None:
        self._require_own(individual)
        self._untidy.add(individual.id)
        with self._writing_into(individual):
            self._writer.write_checkpoint(individual, checkpoint)

    def finish(
        self, individual: Individual, *, fitness: float, metrics: Metrics | None = None, files: NamedData | None = None
    ) -> Individual:
        self._require_own(individual)
        files = files or {}
        result = make_result(individual, fitness, metrics, files, round(self._files.wall(), 3))
        if self._tried == individual:
            # An earlier try failed. It may have succeeded after all; anything else that it left cannot be trusted.
            if (alive := self._adopted(individual)) is not None:
                return alive
            with self._writing_into(individual):
                self._writer.clear_result(individual, files)
        self._tried = individual
        with self._writing_into(individual):
            self._writer.write_result(individual, result, files)
        return self._publish(individual, result)

    def _adopted(self, mine: Individual) -> Individual | None:
        result = self._contents.complete_result(mine)
        if result is None:
            return None
        # Its bytes are on the disk, or it would not have this name. The names in the directory may not be.
        with self._writing_into(mine):
            self._files.sync_dir(self._shards.path(mine))
        return self._publish(mine, result)

    def _publish(self, individual: Individual, result: Result) -> Individual:
        alive = self._move("finish", individual, individual.finished(result.attempt, result.fitness), sync=True)
        # Only now, when the result cannot be undone, may its inputs go.
        if individual.claim > 1 or individual.id in self._untidy:
            self._untidy.discard(individual.id)
            self._writer.tidy(alive)
        else:
            self._writer.drop_inherited(alive)
        return alive

    def hand_over(self, individual: Individual) -> Individual:
        self._require_own(individual)
        return self._move("hand-over", individual, individual.handed_over(), sync=True)

    def take_over(self, individual: Individual) -> Individual:
        self._survey.settled(individual)
        if individual.claim >= names.MAX_CLAIM - 1:
            return self._move("fail", individual, individual.ended(State.FAILED, self.who, "claims"), sync=True)
        progressed = self._progressed(individual)
        mine = self._move("take-over", individual, individual.taken_over(self.who, progressed=progressed))
        if (alive := self._adopted(mine)) is not None:
            return alive
        if mine.strikes >= STRIKES:
            return self.fail(mine, "strikes", f"{mine.strikes} attempts in a row ended without progress.")
        return mine

    def _progressed(self, individual: Individual) -> bool:
        found = self._checked(self._contents.checkpoints, individual)
        steps = {attempt: step for step, attempt, _ in reversed(found)}
        mine = steps.pop(individual.attempt, -1)
        return mine > max(steps.values(), default=-1)

    # Death.

    def end(self, individual: Individual, state: State, why: str, reason: str = "") -> Individual:
        if state is State.FAILED:
            self._require_own(individual)
        self._survey.settled(individual)
        ended = individual.ended(state, self.who, names.valid_why(why))
        if reason:
            with self._writing_into(individual):
                self._writer.write_reason(individual, reason)
        # A kill is not synced: after a power loss the victim is simply alive again.
        return self._move(_ENDS[state], individual, ended, sync=state is not State.DEAD)

    def collect(self, individual: Individual) -> None:
        self._survey.settled(individual)
        gone = individual.collected(self.who)
        fossil = self._archive(individual) if individual.state in (State.DEAD, State.FAILED) else None
        if gone != individual:
            self._move("collect", individual, gone, sync=True)
        # On a network an open file may keep its directory from being removed; the next sweep finds the rest.
        with contextlib.suppress(OSError):
            self._writer.remove(gone, fossil.result if fossil else None)

    def _archive(self, individual: Individual) -> Fossil:
        birth = self.read_birth(individual)
        if individual.state is State.DEAD:
            fossil = Fossil(individual=individual, birth=birth, result=self.read_result(individual))
        else:
            fossil = Fossil(individual=individual, birth=birth, reason=self._contents.reason(individual))
        try:
            self._worker.archive.add(fossil)
        except OSError as error:
            raise self._storage_error(error) from error
        return fossil

    # The worker itself.

    def heartbeat(self, phase: str, step: int, flops: int = 0) -> None:
        self._worker.heartbeat(phase, step, flops)

    def invite(self, invitation: bytes | None) -> None:
        self._worker.invite(invitation)

    def invitation(self, individual: Individual) -> bytes | None:
        return self.worker(individual.owner).invitation() if individual.owner != FREE else None

    def close(self) -> None:
        self._writer.close()
        self._worker.close()

    # Around every change.

    def _move(self, what: str, old: Individual, new: Individual, *, sync: bool = False) -> Individual:
        self._shards.move(old, new)
        self._survey.changed(old, new)
        if sync:
            try:
                self._files.sync_dir(self._shards.shard(new.id))
            except OSError as error:
                raise self._storage_error(error) from error
        self._worker.events.changed(what, new)
        return new

    def _met_damage(self, individual: Individual, damage: Damaged) -> GenepoolError:
        self.quarantine(individual, damage.why)
        return ConcurrencyError(f"Individual {individual.id} was quarantined: {damage}.")

    @contextlib.contextmanager
    def _writing_into(self, individual: Individual) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if self._shards.present(individual):
                raise self._storage_error(error) from error
            raise ConcurrencyError(f"Individual {individual.id} was taken over; choose again.") from error
        except OSError as error:
            raise self._storage_error(error) from error

    def _storage_error(self, error: OSError) -> StorageError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            manifests.spend_reserve(self._files, self._root)
        return StorageError(f"{self._root} cannot be written: {error}; free some space or repair it, then try again.")


def _prepare(files: Files, root: str, manifest: Manifest) -> None:
    try:
        manifests.prepare_directories(files, root, manifest)
    except OSError as error:
        raise StorageError(f"{root} cannot be written: {error}; check the mount and its permissions.") from error
    manifests.keep_reserve(files, root)
