"""Several processes of `genepool study` on one folder: they divide the experiments, help each other, and take over."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from genepool.errors import SettingsError
from genepool.population import FREE
from genepool.study.lease import Driver, claim, is_led
from genepool.workers import LocalPool, PoolOptions, PoolShare, memory_per_pool, memory_per_worker
from tests.support.processes import assert_sound, training, wait_until, workers_of
from tests.support.studies import Study


@pytest.fixture
def studies(tmp_path: Path) -> Iterator[object]:
    made = []

    def make(**values: object) -> Study:
        made.append(Study(tmp_path, **values))
        return made[-1]

    yield make
    for one in made:
        one.clean_up()


@pytest.mark.thorough
def test_of_two_drivers_one_is_killed_and_the_other_finishes_everything_once(studies):
    study = studies()
    first = study.start()
    wait_until(lambda: any((path / "outcome.json").exists() for path in study.experiments()))
    second = study.start("--parallel", 2)
    wait_until(lambda: len(study.experiments()) > 2)
    finished = {path: (path / "outcome.json").read_bytes() for path in study.folder.glob("*/*") if _done(path)}
    first.signal(signal.SIGKILL)
    assert second.end() == 0, second.text()
    study.assert_complete(4)
    assert all((path / "outcome.json").read_bytes() == before for path, before in finished.items())
    assert "running" in second.text() and "waiting" in second.text() and "mean" in second.text()


def _done(path: Path) -> bool:
    return (path / "outcome.json").exists()


@pytest.mark.thorough
def test_a_frozen_driver_is_replaced_after_a_lease_and_accepts_it(studies):
    """Its lock is still held: only the silence counts."""
    study = studies(repeats=1, lease=3, steps=3000)
    first = study.start("--only", "evolution")
    wait_until(lambda: study.experiments() and training(study.experiments()[0]))
    [directory] = study.experiments()
    first.signal(signal.SIGSTOP)
    second = study.start("--only", "evolution")
    wait_until(lambda: len(study.leaders(directory)) >= 2)
    first.signal(signal.SIGCONT)
    assert second.end() == 0, second.text()
    assert first.end() == 0, first.text()
    study.assert_complete(1)


def test_sigterm_hands_over_trainings_and_leadership(studies):
    study = studies(repeats=1, steps=1_000_000)
    one = study.start("--only", "evolution", "--exit-code-on-stop", 75)
    wait_until(lambda: study.experiments() and training(study.experiments()[0]))
    [directory] = study.experiments()
    one.signal(signal.SIGTERM)
    assert one.end() == 75, one.text()
    assert "handed over" in one.text()
    assert study.leaders(directory)[1:] == ["free"]
    assert {each.owner for each in training(directory)} == {FREE} and not workers_of(directory)
    assert not list((study.folder / "drivers").iterdir())
    assert_sound(directory)


@pytest.mark.thorough
def test_a_driver_without_an_experiment_of_its_own_adds_the_workers_that_are_missing(studies):
    study = studies(repeats=1, workers=3, steps=1_000_000)
    study.start("--only", "evolution", "--workers", 1)
    wait_until(lambda: study.experiments() and len(workers_of(study.experiments()[0])) == 1)
    [directory] = study.experiments()
    helper = study.start("--only", "evolution")
    wait_until(lambda: len(workers_of(directory)) == 3)
    assert len(study.leaders(directory)) == 1
    wait_until(lambda: "3 workers" in helper.text() and "2 drivers" in helper.text())
    study.drivers[0].signal(signal.SIGKILL)  # and it leads when the other is gone, with all workers
    wait_until(lambda: len(study.leaders(directory)) == 2)
    wait_until(lambda: len({each.owner for each in training(directory)} - {FREE}) == 3)
    helper.signal(signal.SIGINT)
    assert helper.end() == 130, helper.text()
    assert_sound(directory)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Driver, Driver]]:
    with Driver(tmp_path, 1.0) as one, Driver(tmp_path, 1.0) as other:
        yield one, other


def test_one_of_many_becomes_the_leader(two, tmp_path):
    found = []
    threads = [threading.Thread(target=lambda one=one: found.append(claim(tmp_path, one))) for one in [*two] * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leaders = [one for one in found if one is not None]
    assert sum(one.held() for one in leaders) == 1  # the same driver may have claimed it twice


def test_leadership_is_released_or_taken_over_when_the_leader_is_silent(two, tmp_path):
    one, other = two
    mine = claim(tmp_path, one)
    assert mine and mine.held() and is_led(tmp_path, other) and claim(tmp_path, other) is None
    mine.release()
    assert not is_led(tmp_path, other)
    theirs = claim(tmp_path, other)
    assert theirs and theirs.held() and not mine.held()
    other._closed.set()  # it is silent, but its process lives
    began = time.monotonic()
    wait_until(lambda: claim(tmp_path, one) is not None)
    assert time.monotonic() - began > 0.9
    assert not theirs.held()


def test_pools_side_by_side_share_the_cores_and_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    options = PoolOptions(directory=tmp_path, device="cpu", share=PoolShare(pools=2, memory=16 << 30))
    assert LocalPool(options).count == 4
    few = PoolOptions(directory=tmp_path, device="cpu", count=25, share=PoolShare(pools=2, most=3, memory=16 << 30))
    assert LocalPool(few).count == 3
    assert memory_per_worker(None, 4, within=16 << 30) == 4 << 30
    whole, half = memory_per_pool(1), memory_per_pool(2)
    assert whole is not None and half is not None and half < 0.6 * whole
    with pytest.raises(SettingsError, match="do not fit"):
        LocalPool(PoolOptions(directory=tmp_path, device="cpu", count=1000, share=PoolShare(memory=1 << 30)))
