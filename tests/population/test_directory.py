"""Directories only: adoption, links and copies, leftovers, repeatable runs, and which module makes system calls."""

from __future__ import annotations

import ast
import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

import genepool.population
from genepool.errors import ConcurrencyError, DataError, StorageError
from genepool.population import (
    Checkpoint,
    DirectoryPopulation,
    DirectoryView,
    Files,
    Individual,
    State,
    check_directory,
)
from genepool.population.directory import names
from genepool.testing import Clock, make_birth, make_weights
from tests.support.records import records
from tests.support.toy_worker import ToyWorker

FILES = {names.WEIGHTS: make_weights()}
LEASE = 100.0


class Refusing(Files):
    """Files whose calls fail as configured ({call: error number}) and are counted."""

    def __init__(self, **options: Any) -> None:
        super().__init__(durability="fast", **options)
        self.refused: dict[str, int] = {}
        self.calls: list[str] = []

    def _try(self, name: str) -> None:
        self.calls.append(name)
        if name in self.refused:
            raise OSError(self.refused[name], os.strerror(self.refused[name]))

    def link(self, source: str, target: str) -> None:
        self._try("link")
        super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._try("rename")
        super().rename(source, target)

    def list(self, path: str) -> list[str]:
        self._try("list")
        return super().list(path)


@pytest.fixture
def files() -> Refusing:
    return Refusing(monotonic=Clock())


@pytest.fixture
def worker(tmp_path: Path, files: Refusing) -> DirectoryPopulation:
    DirectoryPopulation.establish(tmp_path, population_size=10, lease=LEASE, files=files)
    return DirectoryPopulation.open(tmp_path, files=files)


def join(worker: DirectoryPopulation) -> DirectoryPopulation:
    return DirectoryPopulation.open(worker.path, files=worker._files)


def inside(worker: DirectoryPopulation, individual: Individual) -> set[str]:
    path = Path(worker._shards.path(individual))
    return {str(found.relative_to(path)) for found in path.rglob("*")}


def part(worker: DirectoryPopulation, individual: Individual, name: str) -> Path:
    return Path(worker._shards.path(individual)) / names.of_attempt(individual.attempt, name)


def grown(worker: DirectoryPopulation, number: int = 1) -> Individual:
    return worker.finish(worker.create(make_birth(number)), fitness=number / 10, files=FILES)


def leave_a_result(worker: DirectoryPopulation, files: Refusing) -> Individual:
    """A TRAINING individual whose owner crashed after its result and before the rename that publishes it."""
    child = worker.create(make_birth(1))
    worker.save_checkpoint(child, Checkpoint(step=3, data=b"three"))
    done = worker._shards.move
    worker._shards.move = lambda *_: files._try("crash")  # type: ignore[method-assign]
    files.refused["crash"] = errno.EIO
    with pytest.raises(OSError, match="error"):
        worker.finish(child, fitness=0.625, files=FILES)
    worker._shards.move = done  # type: ignore[method-assign]
    return child


def test_a_complete_result_is_adopted(worker: DirectoryPopulation, files: Refusing) -> None:
    child = leave_a_result(worker, files)
    other = join(worker)
    alive = other.take_over(child)
    assert (alive.state, alive.fitness, alive.claim, alive.attempt) == (State.ALIVE, 0.625, 2, f"1-{worker.who}")
    assert other.weights(alive) == make_weights()
    assert inside(other, alive) == {"dna.json", f"1-{worker.who}.result.json", f"1-{worker.who}.weights.safetensors"}


@pytest.mark.parametrize("damage", ["weights", "result", "torn", "missing"])
def test_a_damaged_result_is_not_adopted_but_its_checkpoint_is_used(
    worker: DirectoryPopulation, files: Refusing, damage: str
) -> None:
    child = leave_a_result(worker, files)
    weights, result = (part(worker, child, name) for name in (names.WEIGHTS, names.RESULT))
    match damage:
        case "weights":
            weights.write_bytes(make_weights(9))
        case "result":
            result.write_text("{}")
        case "torn":
            result.write_bytes(result.read_bytes()[:-1])
        case "missing":
            weights.unlink()
    other = join(worker)
    mine = other.take_over(child)
    assert mine.state is State.TRAINING
    assert other.checkpoint(mine) == Checkpoint(step=3, data=b"three")
    alive = other.finish(mine, fitness=0.5, files=FILES)
    assert other.read_result(alive).attempt == f"2-{other.who}"


def test_a_worker_repeats_a_failed_finish_by_a_takeover(worker: DirectoryPopulation, files: Refusing) -> None:
    child = worker.create(make_birth(1))
    files.refused["rename"] = errno.ENOSPC
    with pytest.raises(StorageError):
        worker.finish(child, fitness=0.5, files=FILES)
    del files.refused["rename"]
    alive = worker.take_over(child)
    assert (alive.state, alive.attempt, alive.fitness) == (State.ALIVE, child.attempt, 0.5)


def test_an_owner_whose_files_seem_missing_does_not_write_them_again(
    worker: DirectoryPopulation, files: Refusing
) -> None:
    """Another worker has adopted the result, and a cache sometimes leads the old name to it."""
    child = worker.create(make_birth(1))
    files.refused["rename"] = errno.EIO
    with pytest.raises(StorageError):
        worker.finish(child, fitness=0.5, files=FILES)
    del files.refused["rename"]
    part(worker, child, names.WEIGHTS).rename(worker.path / "aside")
    with pytest.raises(ConcurrencyError, match="taken over"):
        worker.finish(child, fitness=0.5, files=FILES)
    (worker.path / "aside").rename(part(worker, child, names.WEIGHTS))
    assert worker.finish(child, fitness=0.5, files=FILES).state is State.ALIVE


@pytest.mark.parametrize("number", [errno.EMLINK, errno.EXDEV, errno.EPERM])
def test_without_links_the_child_gets_a_copy(worker: DirectoryPopulation, files: Refusing, number: int) -> None:
    parent = grown(worker)
    files.refused["link"] = number
    child = worker.create(make_birth(2), parents=(parent,))
    worker.collect(worker.kill(parent))
    assert worker.inherited_weights(child) == (make_weights(),)


def test_with_links_a_child_takes_no_space(worker: DirectoryPopulation) -> None:
    parent = grown(worker)
    child = worker.create(make_birth(2), parents=(parent,))
    assert (Path(worker._shards.path(child)) / names.inherited_name(0)).stat().st_nlink == 2
    alive = worker.finish(child, fitness=0.5)
    assert inside(worker, alive) == {"dna.json", f"1-{worker.who}.result.json"}


def test_a_parent_that_lost_its_weights_is_quarantined(worker: DirectoryPopulation) -> None:
    parent = grown(worker)
    part(worker, parent, names.WEIGHTS).unlink()
    with pytest.raises(ConcurrencyError, match="quarantine"):
        worker.create(make_birth(2), parents=(parent,))
    assert [individual.state for individual in worker.snapshot()] == [State.QUARANTINED]


def test_leftovers_of_crashed_workers_are_collected(worker: DirectoryPopulation, files: Refusing) -> None:
    clock = files.monotonic
    shard = worker.path / "pop" / "0000"
    identity = "0" * 25
    for name in (f"t1_{identity}_deaddead", f"X1_{identity[:-1]}1_deaddead"):
        (shard / name / "folder").mkdir(parents=True)
        for file in ("1-deaddead.result.json", "folder/file"):
            (shard / name / file).write_text("x")
    for _ in range(15):
        clock.advance(LEASE / 10)
        worker.heartbeat("step", round(clock.now))
        for individual in worker.garbage():
            worker.collect(individual)
    assert list(shard.iterdir()) == []
    assert list(worker.fossils()) == []


def test_an_unknown_outcome_is_a_storage_error_that_resolves_itself(
    worker: DirectoryPopulation, files: Refusing
) -> None:
    child = worker.create(make_birth(1))

    def rename_without_a_reply(source: str, target: str) -> None:
        Path(source).rename(target)
        files.refused["list"] = errno.EIO
        raise OSError(errno.EIO, "no reply")

    files.rename, normal = rename_without_a_reply, files.rename  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="is unknown"):
        worker.hand_over(child)
    files.rename = normal  # type: ignore[method-assign]
    del files.refused["list"]
    assert worker.snapshot() == [child.handed_over()]


def test_observers_change_nothing(worker: DirectoryPopulation) -> None:
    parent = grown(worker)
    child = worker.create(make_birth(2), parents=(parent,))
    worker.collect(worker.kill(grown(worker, 3)))

    class ReadOnly(Files):
        def mkdir(self, *_: object) -> None:
            raise AssertionError("an observer changed something")

        rename = link = unlink = rmdir = write = fsync = fsync_dir = mkdir  # type: ignore[assignment]

        def open(self, path: str, flags: int) -> int:
            assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            return super().open(path, flags)

    view = DirectoryView.open(worker.path, files=ReadOnly())
    assert len(list(records(view))) == 3
    assert view.inherited_weights(child) == (make_weights(),)
    assert view.census().living == 2
    assert view.sample(random.Random(1)).id in (parent.id, child.id)
    assert check_directory(worker.path, files=ReadOnly())
    (Path(view._shards.path(parent)) / "dna.json").write_text("damaged")
    with pytest.raises(DataError, match="damaged"):
        view.read_birth(parent)


def test_a_repeated_sweep_shows_the_same_as_a_first_one(tmp_path: Path) -> None:
    # Several shards, so that a name can be in a wrong one.
    DirectoryPopulation.establish(tmp_path, population_size=300)
    worker, view = DirectoryPopulation.open(tmp_path), DirectoryView.open(tmp_path)
    stays, goes = grown(worker, 1), grown(worker, 2)
    before, known = view.sweep_again({})
    assert {individual.id for individual in before.individuals} == {stays.id, goes.id}
    worker.kill(goes, "lost")
    home = worker._shards.shard(stays.id)
    wrong = next(shard for shard in sorted((tmp_path / "pop").iterdir()) if str(shard) != home)
    (wrong / names.encode(stays)).mkdir()
    again, _ = view.sweep_again(known)
    assert again == view.sweep()
    assert again.foreign == [f"{wrong.name}/{names.encode(stays)}"]
    same = {individual.id: individual for individual in before.individuals}
    assert [individual is same[individual.id] for individual in again.individuals] == [
        individual.id == stays.id for individual in again.individuals
    ]


def test_one_worker_with_one_seed_is_repeatable_except_for_names(tmp_path: Path) -> None:
    histories = []
    for number in range(2):
        path = tmp_path / str(number)
        path.mkdir()
        files = Files(durability="fast", urandom=random.Random(5).randbytes)
        DirectoryPopulation.establish(path, population_size=200, files=files)
        worker = ToyWorker(DirectoryPopulation.open(path, files=files), random.Random(7), 200, {})
        worker.hand_over = 0.0  # the moment at which a hand-over is noticed depends on time
        for _ in range(120):
            worker.try_step()
        births = sorted(records(worker.population), key=lambda record: record.individual.id)
        histories.append([(bytes(r.birth.dna), r.individual.state, r.individual.fitness) for r in births])
    assert histories[0] == histories[1]
    assert len(histories[0]) > 50


def test_every_worker_gets_its_own_id(tmp_path: Path) -> None:
    files = Files(durability="fast", urandom=random.Random(5).randbytes)
    DirectoryPopulation.establish(tmp_path, population_size=10, files=files)
    same = [DirectoryPopulation.open(tmp_path, files=Files(urandom=random.Random(1).randbytes)) for _ in range(3)]
    assert len({worker.who for worker in same}) == 3


def test_steps_take_the_same_number_of_calls_at_any_size(tmp_path: Path) -> None:
    calls = []
    for size in (300, 3_000):
        path = tmp_path / str(size)
        path.mkdir()
        # Every call takes some time, so that sweeps take time and become rare.
        files = Refusing()
        files.monotonic = lambda files=files: len(files.calls) * 1e-5
        DirectoryPopulation.establish(path, population_size=size, files=files)
        worker = DirectoryPopulation.open(path, files=files)
        for number in range(size):
            worker.finish(worker.create(make_birth(number)), fitness=number / size)
        worker.census(fresh=True)
        rng = random.Random(1)
        before = len(files.calls)
        for _ in range(200):
            worker.kill(worker.sample(rng))
            worker.sample(rng)
        calls.append(len(files.calls) - before)
    assert calls[1] < 1.5 * calls[0]


PACKAGE = Path(genepool.population.__file__).parent


@pytest.mark.parametrize("module", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.stem)
def test_only_files_makes_system_calls_and_nothing_is_unpickled(module: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert not imported & {"pickle", "marshal", "shelve", "torch", "numpy", "shutil"}
    assert module.stem == "files" or not imported & {"os", "io"}
    assert "read_bytes" not in module.read_text()


def test_an_outdated_snapshot_is_refused_even_from_its_new_owner(tmp_path: Path) -> None:
    """Names never recur: what a worker remembers must not match what it owns again later."""
    DirectoryPopulation.establish(tmp_path, population_size=10)
    first, second = (DirectoryPopulation.open(tmp_path) for _ in range(2))
    old = first.create(make_birth())
    again = first.take_over(second.take_over(old))
    assert again.owner == old.owner
    with pytest.raises(ConcurrencyError):
        first.finish(old, fitness=0.5)
    assert first.finish(again, fitness=0.6).fitness == 0.6


def test_a_child_gets_the_directory_that_a_collected_individual_left(
    worker: DirectoryPopulation, tmp_path: Path
) -> None:
    dead = worker.kill(worker.finish(worker.create(make_birth(1)), fitness=0.5, files=FILES))
    inode = next((tmp_path / "pop").glob("*/D1_*")).stat().st_ino
    worker.collect(dead)
    assert worker.garbage() == []
    child = worker.create(make_birth(2))
    [place] = (tmp_path / "pop").glob("*/*")
    assert place.stat().st_ino == inode
    assert place.name == names.encode(child)
    assert [entry.name for entry in place.iterdir()] == [names.BIRTH]


def test_a_directory_that_is_not_empty_is_not_reused(worker: DirectoryPopulation, tmp_path: Path) -> None:
    dead = worker.kill(worker.finish(worker.create(make_birth(1)), fitness=0.5, files=FILES))
    [place] = (tmp_path / "pop").glob("*/D1_*")
    (place / "1-zzzzzzzz.weights.safetensors").write_bytes(b"of a worker that resumed late")
    worker.collect(dead)
    assert list((tmp_path / "pop").glob("*/*")) == []


def test_a_child_is_born_even_if_the_spare_directory_is_gone(worker: DirectoryPopulation, tmp_path: Path) -> None:
    worker.collect(worker.kill(worker.finish(worker.create(make_birth(1)), fitness=0.5, files=FILES)))
    next((tmp_path / "pop").glob("*/X1_*")).rmdir()
    child = worker.create(make_birth(2))
    assert worker.snapshot() == [child]


def test_closing_leaves_no_empty_directory(worker: DirectoryPopulation, tmp_path: Path) -> None:
    worker.collect(worker.kill(worker.finish(worker.create(make_birth(1)), fitness=0.5, files=FILES)))
    worker.close()
    assert list((tmp_path / "pop").glob("*/*")) == []
