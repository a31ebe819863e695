"""A population whose files a server has: it passes the same contract, also if answers are lost."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genepool.errors import GenepoolError, SettingsError, StorageError
from genepool.population import (
    Answer,
    AnswerLost,
    DirectoryPopulation,
    Files,
    FileServer,
    LogLines,
    ServedFiles,
    State,
    check_directory,
)
from genepool.population.directory import served
from genepool.population.directory.served import CHANGING, LOOKING
from genepool.testing import Clock, make_birth, make_weights
from genepool.testing.contract import Harness, PopulationContract
from tests.support.store_simulation import with_shards

LEASE = 100.0
FILES = {"weights.safetensors": make_weights()}


class TestServedPopulation(PopulationContract):
    @pytest.fixture(params=["safe-1", "fast-16"])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> Harness:
        durability, shards = request.param.split("-")
        clock = Clock()
        with with_shards(int(shards)):
            DirectoryPopulation.establish(tmp_path, population_size=100, lease=LEASE)

        def join() -> DirectoryPopulation:
            # A new server for each, as after a restart: it keeps no state, so that must make no difference.
            files = ServedFiles(FileServer(str(tmp_path)).do, durability=durability, monotonic=clock)
            return DirectoryPopulation.open(tmp_path, files=files)

        return Harness(join=join, clock=clock, lease=LEASE)


class Unreliable:
    """Loses some answers, before or after the call is carried out."""

    def __init__(self, root: Path, rng: random.Random, share: float) -> None:
        self._server, self._rng, self.share = FileServer(str(root)), rng, share
        self.lost = 0

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool, lines: LogLines) -> Answer:
        lost = self._rng.random() < self.share
        self.lost += lost
        if lost and self._rng.random() < 0.5:
            raise AnswerLost
        answer = self._server.do(name, arguments, safe, lines)
        if lost:
            raise AnswerLost
        return answer


@pytest.mark.parametrize("seed", range(10))
def test_lost_answers_lose_no_individual(seed: int, tmp_path: Path) -> None:
    DirectoryPopulation.establish(tmp_path, population_size=8, lease=LEASE)
    clock, lines = Clock(), []
    workers = []
    for number in range(3):
        line = Unreliable(tmp_path, random.Random(f"{seed} {number}"), 0.0)
        files = ServedFiles(line, durability="safe", monotonic=clock)
        workers.append(DirectoryPopulation.open(tmp_path, files=files))
        lines.append(line)
    finished: dict[str, float] = {}
    for line in lines:
        line.share = 0.05
    rng = random.Random(seed)
    for step in range(150):
        population = rng.choice(workers)
        clock.advance(LEASE / 50)
        try:
            population.heartbeat("step", step)
            orphans = population.orphans()
            child = population.take_over(rng.choice(orphans)) if orphans else population.create(make_birth(step))
            if child.state is State.TRAINING:
                alive = population.finish(child, fitness=step / 1000, files=FILES)
                finished[alive.id] = alive.fitness or 0.0
        except GenepoolError:
            continue
    assert sum(line.lost for line in lines) > 20
    assert len(finished) > 50
    for line in lines:
        line.share = 0.0
    report = check_directory(tmp_path)
    assert report, report.violations
    there = {one.id: one.fitness for one in workers[0].snapshot() if one.fitness is not None}
    assert finished.items() <= there.items()


@pytest.mark.parametrize("name", sorted(CHANGING))
def test_a_change_whose_answer_is_lost_is_an_error(name: str) -> None:
    def lose(*call: Any) -> Answer:
        raise AnswerLost

    files = ServedFiles(lose)
    with pytest.raises(OSError, match="lost") as caught:
        files._change(name, "x")
    assert caught.value.errno == errno.EIO


def test_a_read_whose_answer_is_lost_is_repeated(tmp_path: Path) -> None:
    server, calls = FileServer(str(tmp_path)), []

    def lose_the_first(*call: Any) -> Answer:
        calls.append(call)
        if len(calls) == 1:
            raise AnswerLost
        return server.do(*call)

    assert ServedFiles(lose_the_first).list(str(tmp_path)) == []
    assert len(calls) == 2


@pytest.mark.parametrize("path", ["/etc/passwd", "{root}/../x", "{root}x/y", "x"])
@pytest.mark.parametrize("name", sorted(LOOKING | CHANGING))
def test_nothing_outside_the_directory_is_touched(name: str, path: str, tmp_path: Path) -> None:
    place = path.format(root=tmp_path)
    for arguments in ((place,), (place, place), ([place],), (place, b"x")):
        answer = FileServer(str(tmp_path)).do(name, arguments)
        assert answer.error == errno.EACCES


def test_event_lines_travel_with_the_next_call_and_the_last_ones_at_the_end(tmp_path: Path) -> None:
    server, journeys = FileServer(str(tmp_path)), []

    def send(*message: Any) -> Answer:
        journeys.append(message[0])
        return server.do(*message)

    files, path = ServedFiles(send), f"{tmp_path}/events.log"
    log = files.open_log(path)
    files.write_all(log, b"one\n")
    files.write_all(log, b"two\n")
    assert Path(path).read_bytes() == b""
    files.at("fast").list(str(tmp_path))
    assert Path(path).read_bytes() == b"one\ntwo\n"
    for line in (b"three\n", b"four\n"):
        files.write_all(log, line)
    files.close(log)
    assert Path(path).read_bytes() == b"one\ntwo\nthree\nfour\n"
    assert journeys == ["begin_log", "list", "append"]


def test_event_lines_outside_the_directory_are_not_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    (tmp_path / "inside").mkdir()
    server = FileServer(str(tmp_path / "inside"))
    assert server.do("list", (str(tmp_path / "inside"),), True, [(str(outside), b"line\n")]).value == []
    assert outside.read_bytes() == b""


def test_lasting_lines_are_read_back(tmp_path: Path) -> None:
    files, path = ServedFiles(FileServer(str(tmp_path)).do), f"{tmp_path}/archive.log"
    log = files.open_log(path)
    files.write_lasting(log, b"one\n", 0)
    with pytest.raises(OSError, match="does not read back"):
        files.write_lasting(log, b"two\n", 3)


def test_only_calls_of_the_store_are_carried_out(tmp_path: Path) -> None:
    for name in ("open", "__init__", "_check", "urandom", "process", "nothing"):
        assert FileServer(str(tmp_path)).do(name, ()).error == errno.ENOSYS


def test_a_transfer_that_is_too_large_is_refused_in_both_directions(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(served, "LARGEST_TRANSFER", 1000)
    files = ServedFiles(FileServer(str(tmp_path)).do)
    with pytest.raises(SettingsError, match=r"lower limits\.parameters"):
        files.save(f"{tmp_path}/w", bytes(1001))
    Files().save(f"{tmp_path}/w", bytes(1001))
    with pytest.raises(SettingsError, match=r"lower limits\.parameters"):
        files.load(f"{tmp_path}/w", 1 << 40)
    with pytest.raises(OSError, match="large") as caught:
        files.load(f"{tmp_path}/w", 10)
    assert caught.value.errno == errno.EFBIG


def test_a_server_that_stays_away_is_a_storage_error(tmp_path: Path) -> None:
    DirectoryPopulation.establish(tmp_path, population_size=8)
    line = Unreliable(tmp_path, random.Random(1), 0.0)
    population = DirectoryPopulation.open(tmp_path, files=ServedFiles(line))
    line.share = 1.0
    doing: list[Callable[[], Any]] = [lambda: population.create(make_birth()), population.snapshot]
    for do in doing:
        with pytest.raises(StorageError):
            do()
