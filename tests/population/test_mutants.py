"""Mutants of the protocol: each deliberate mistake must be caught by the tests in this folder.

archive_after_delete            an individual is removed before its fossil is written
archive_not_synced              the fossil is written but not synced before the individual goes
collect_without_x               a dead individual is emptied under its own name
delete_before_x_is_durable      a dead individual is emptied before its rename is synced
weights_not_synced              a result is published whose bytes are still in memory
result_named_too_early          a result has its name, and may be adopted, before its bytes are on the disk
names_not_synced                directories are never synced
publish_before_result           the rename to ALIVE comes before the result is written
heritage_after_publish          a child is visible before its parent's weights are linked in
heritage_dropped_too_early      the link to the parent's weights goes before the result is published
claim_not_raised                a takeover keeps the claim, so names recur
one_attempt                     all attempts share one name, so a former owner overwrites the new owner's files
rename_believed                 a rename that reports ENOENT is taken for done
result_not_checked              a result is adopted without checking its hashes
id_not_claimed                  two processes with the same random numbers get the same ID
lease_ignored                   an individual in training is taken over at once
own_heartbeats_ignored          an observer that was frozen itself trusts its old observations
progress_ignored                a hung trainer that repeats the same heartbeat counts as alive
strikes_not_counted             an individual that kills its trainers is retried forever
shards_drawn_evenly             shards are drawn uniformly, so individuals in emptier shards are drawn too often
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from genepool.errors import ConcurrencyError, GenepoolError
from genepool.population import DirectoryPopulation, Files, Fossil, Individual, Result, State
from genepool.population.directory import names
from genepool.population.directory import shards as shards_module
from genepool.population.directory import writer as writing_module
from genepool.population.directory.contents import Contents
from genepool.population.directory.shards import Shards
from genepool.population.directory.workers import HeartbeatTimer, WorkerDirectory
from genepool.population.directory.writer import Writer
from genepool.testing import Clock
from genepool.testing.contract import Harness, LifeContract, PopulationContract
from tests.population import test_directory, test_faults
from tests.support.store_simulation import Plan, Simulation, with_shards

Patch = pytest.MonkeyPatch
Detector = Callable[[], None]


# Detectors: each raises if something is wrong.


def faults(operation: str, *kinds: str) -> Detector:
    """Return the fault loop of one operation."""

    def detect() -> None:
        for kind in kinds:
            number = 1
            while test_faults.run(operation, kind, number, persistent=False):
                number += 1

    return detect


def simulations(seeds: int = 200, **plan: float) -> Detector:
    """Return a run of seeded histories."""

    def detect() -> None:
        for seed in range(seeds):
            simulation = Simulation(seed, Plan(**plan))
            report = simulation.run()
            assert simulation.problems == []
            assert report.violations == []

    return detect


def contract(test: str, *arguments: str) -> Detector:
    """Return one contract test, run on a directory."""

    def detect() -> None:
        with tempfile.TemporaryDirectory() as path:
            clock = Clock()
            files = Files(durability="fast", monotonic=clock)
            with with_shards(16):
                DirectoryPopulation.establish(path, population_size=100, lease=100.0, files=files)
            harness = Harness(join=lambda: DirectoryPopulation.open(path, files=files), clock=clock, lease=100.0)
            alone = test in vars(LifeContract)
            getattr(PopulationContract(), test)(harness.join() if alone else harness, *arguments)

    return detect


def adoption() -> None:
    """The test of damaged results."""
    with tempfile.TemporaryDirectory() as path:
        files = test_directory.Refusing(monotonic=Clock())
        DirectoryPopulation.establish(path, population_size=10, files=files)
        worker = DirectoryPopulation.open(path, files=files)
        test_directory.test_a_damaged_result_is_not_adopted_but_its_checkpoint_is_used(worker, files, "weights")


def returning() -> None:
    """The test of an individual that comes back to a former owner."""
    with tempfile.TemporaryDirectory() as path:
        test_directory.test_an_outdated_snapshot_is_refused_even_from_its_new_owner(Path(path))


def joining() -> None:
    """The test of equal random numbers."""
    with tempfile.TemporaryDirectory() as path:
        test_directory.test_every_worker_gets_its_own_id(Path(path))


# Mutants.


def archive_after_delete(patch: Patch) -> None:
    def collect(self: DirectoryPopulation, individual: Individual) -> None:
        self._survey.settled(individual)
        gone = individual.collected(self.who)
        dead = individual.state is State.DEAD
        birth, result = (self.read_birth(individual), self.read_result(individual)) if dead else (None, None)
        if gone != individual:
            self._move("collect", individual, gone, sync=True)
        self._files.remove_tree(self._shards.path(gone))
        if birth is not None:
            self._worker.archive.add(Fossil(individual=individual, birth=birth, result=result))

    patch.setattr(DirectoryPopulation, "collect", collect)


def archive_not_synced(patch: Patch) -> None:
    patch.setattr(Files, "write_lasting", lambda self, descriptor, data, at: self.write_all(descriptor, data))


def collect_without_x(patch: Patch) -> None:
    def collect(self: DirectoryPopulation, individual: Individual) -> None:
        if individual.state in (State.DEAD, State.FAILED):
            self._archive(individual)
        self._survey.settled(individual)
        self._files.remove_tree(self._shards.path(individual))

    patch.setattr(DirectoryPopulation, "collect", collect)


def delete_before_x_is_durable(patch: Patch) -> None:
    move = DirectoryPopulation._move

    def unsynced(self: DirectoryPopulation, what: str, *states: Individual, sync: bool = False) -> Individual:
        return move(self, what, *states, sync=sync and what != "collect")

    patch.setattr(DirectoryPopulation, "_move", unsynced)


def weights_not_synced(patch: Patch) -> None:
    save = Files.save

    def unsynced(self: Files, path: str, data: bytes) -> None:
        safe, self.safe = self.safe, self.safe and not path.endswith(names.WEIGHTS)
        try:
            save(self, path, data)
        finally:
            self.safe = safe

    patch.setattr(Files, "save", unsynced)


def result_named_too_early(patch: Patch) -> None:
    original = Writer.write_result

    def write_result(self: Writer, individual: Individual, result: Result, files: dict[str, bytes]) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(names, "UNSYNCED", names.RESULT)
            original(self, individual, result, files)

    patch.setattr(Writer, "write_result", write_result)


def names_not_synced(patch: Patch) -> None:
    patch.setattr(Files, "sync_dir", lambda *_: None)


def publish_before_result(patch: Patch) -> None:
    write, publish = Writer.write_result, DirectoryPopulation._publish

    def write_result(self: Writer, individual: Individual, result: Result, files: dict[str, bytes]) -> None:
        alive = individual.finished(individual.attempt, result.fitness)
        self._shards.move(individual, alive)
        write(self, alive, result, files)

    def unless_published(self: DirectoryPopulation, individual: Individual, result: Result) -> Individual:
        alive = individual.finished(result.attempt, result.fitness)
        return alive if self._shards.present(alive) else publish(self, individual, result)

    patch.setattr(Writer, "write_result", write_result)
    patch.setattr(DirectoryPopulation, "_publish", unless_published)


def heritage_after_publish(patch: Patch) -> None:
    original = Writer.write_staging
    waiting: dict[str, str] = {}

    def write_staging(self: Writer, staging: Individual, birth: object, sources: list[str]) -> None:
        original(self, staging, birth, ())
        for source in sources:
            waiting[staging.id] = source

    move = DirectoryPopulation._move

    def link_late(self: DirectoryPopulation, what: str, old: Individual, new: Individual, **options: bool) -> object:
        moved = move(self, what, old, new, **options)
        if what == "create" and new.id in waiting:
            self._writer._link(waiting.pop(new.id), self._shards.path(new), names.inherited_name(0))
        return moved

    patch.setattr(Writer, "write_staging", write_staging)
    patch.setattr(DirectoryPopulation, "_move", link_late)


def heritage_dropped_too_early(patch: Patch) -> None:
    original = Writer.write_result

    def write_result(self: Writer, individual: Individual, result: Result, files: dict[str, bytes]) -> None:
        self.drop_inherited(individual)
        original(self, individual, result, files)

    patch.setattr(Writer, "write_result", write_result)


def claim_not_raised(patch: Patch) -> None:
    def taken_over(self: Individual, who: str, *, progressed: bool) -> Individual:
        return self._training(claim=self.claim, strikes=0 if progressed else self.strikes, owner=who)

    patch.setattr(Individual, "taken_over", taken_over)


def one_attempt(patch: Patch) -> None:
    original = Individual._training

    def training(self: Individual, *, claim: int, strikes: int, owner: str) -> Individual:
        made = original(self, claim=claim, strikes=strikes, owner=owner)
        return msgspec.structs.replace(made, attempt="1-00000000")

    patch.setattr(Individual, "_training", training)


def rename_believed(patch: Patch) -> None:
    def commit(files: Files, parent: str, old: str, new: str) -> None:
        try:
            files.rename(f"{parent}/{old}", f"{parent}/{new}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConcurrencyError("lost") from error

    patch.setattr(shards_module, "commit", commit)
    patch.setattr(writing_module, "commit", commit)


def result_not_checked(patch: Patch) -> None:
    patch.setattr(Contents, "stored", lambda *_: b"")


def id_not_claimed(patch: Patch) -> None:
    def claim(self: WorkerDirectory) -> str:
        who = names.make_who(self._files.urandom)
        Path(f"{self._workers}/{who}").mkdir(exist_ok=True)
        return who

    patch.setattr(WorkerDirectory, "_claim", claim)


def lease_ignored(patch: Patch) -> None:
    patch.setattr(WorkerDirectory, "abandoned", lambda self, individual: individual.state is State.TRAINING)


def own_heartbeats_ignored(patch: Patch) -> None:
    patch.setattr(HeartbeatTimer, "steady_for", lambda *_: float("inf"))


def progress_ignored(patch: Patch) -> None:
    original = HeartbeatTimer.due

    def due(self: HeartbeatTimer, progress: tuple[str, int, int], now: float, **last: bool) -> bytes | None:
        self._progress = None
        return original(self, progress, now, **last)

    patch.setattr(HeartbeatTimer, "due", due)


def strikes_not_counted(patch: Patch) -> None:
    def taken_over(self: Individual, who: str, *, progressed: bool) -> Individual:
        return self._training(claim=self.claim + 1, strikes=0, owner=who)

    patch.setattr(Individual, "taken_over", taken_over)


def shards_drawn_evenly(patch: Patch) -> None:
    def draw(self: Shards, rng: object, living: int) -> Individual:
        while True:
            living = names.living(self._list(self._paths[rng.randrange(self._count)]))
            if living:
                return names.parse(living[rng.randrange(len(living))])

    patch.setattr(Shards, "draw", draw)


POWER = {"power_loss": 0.001, "crash": 0.0, "error": 0.0, "lost_reply": 0.0}
MUTANTS: list[tuple[Callable[[Patch], None], Detector]] = [
    (archive_after_delete, faults("collect", "crash-before", "crash-after")),
    (archive_not_synced, simulations(**POWER)),
    (collect_without_x, faults("collect", "crash-before", "crash-after")),
    (delete_before_x_is_durable, simulations(**POWER)),
    (weights_not_synced, simulations(**POWER)),
    (result_named_too_early, lambda: test_faults.adoption_is_durable("crash-before")),
    (names_not_synced, simulations(**POWER)),
    (publish_before_result, faults("finish", "crash-before", "crash-after")),
    (heritage_after_publish, faults("create_with_parent", "crash-before", "crash-after")),
    (heritage_dropped_too_early, faults("finish", "crash-before", "crash-after")),
    (claim_not_raised, returning),
    (one_attempt, simulations()),
    (rename_believed, contract("test_only_one_of_two_changes_to_a_snapshot_succeeds", "kill")),
    (result_not_checked, adoption),
    (id_not_claimed, joining),
    (lease_ignored, contract("test_the_individual_of_an_active_owner_is_not_an_orphan")),
    (own_heartbeats_ignored, contract("test_an_observer_that_was_frozen_itself_starts_a_new_lease")),
    (progress_ignored, contract("test_heartbeats_without_progress_do_not_renew_a_lease")),
    (strikes_not_counted, contract("test_repeated_attempts_without_progress_lead_to_failure")),
    (shards_drawn_evenly, contract("test_every_living_individual_is_equally_likely")),
]


@pytest.mark.parametrize(("mutate", "detect"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_the_mutant_is_caught(mutate: Callable[[Patch], None], detect: Detector) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        with pytest.raises((AssertionError, GenepoolError, pytest.fail.Exception)):
            detect()


def test_the_list_above_is_complete() -> None:
    listed = re.findall(r"^ *(\w+)   +", __doc__ or "", re.MULTILINE)
    assert [mutant.__name__ for mutant, _ in MUTANTS] == listed
