"""Ctrl-C: once lets the workers hand over what they train, twice ends at once; neither loses anything."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from genepool.experiment import Experiment
from tests.support.processes import (
    PATIENCE,
    assert_sound,
    experiment,
    finished,
    started,
    steps_done,
    training,
    wait_until,
    workers_of,
)

ENDLESS = 1_000_000


def all_busy(directory: Path) -> bool:
    """Whether two workers are in the middle of a training."""
    busy = training(directory)
    return len(busy) == 2 and all(steps_done(directory, one.owner) > 50 for one in busy)


def lived_then_busy(directory: Path) -> None:
    """Waits until somebody is alive and two trainings have begun that will not end by themselves."""
    wait_until(lambda: len(finished(directory)) >= 2)
    Experiment.open(directory).set({"training.steps": ENDLESS})
    wait_until(lambda: all_busy(directory))


def test_once_hands_trainings_over_and_prints_the_summary(tmp_path: Path) -> None:
    directory = tmp_path / "e"
    experiment(directory, "training.steps=50", "population.lease=10", "workers.count=2")
    with started("run", directory) as launcher:
        lived_then_busy(directory)
        known, begun = finished(directory), {one.id for one in training(directory)}
        launcher.send_signal(signal.SIGINT)
        out, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, err
    assert "best network" in out
    assert workers_of(directory) == []
    assert {(one.id, one.owner) for one in training(directory)} == {(identity, "free0000") for identity in begun}
    assert set(known) <= set(finished(directory))
    assert_sound(directory)


def test_twice_ends_at_once(tmp_path: Path) -> None:
    """Also where nobody hands anything over: the workers are frozen."""
    directory = tmp_path / "e"
    experiment(directory, "training.steps=50", "population.lease=10", "workers.count=2")
    with started("run", directory) as launcher:
        lived_then_busy(directory)
        known, begun = finished(directory), {(one.id, one.owner) for one in training(directory)}
        for worker in workers_of(directory):
            os.kill(worker, signal.SIGSTOP)
        launcher.send_signal(signal.SIGINT)
        assert any("Ctrl-C again ends at once" in line for line in launcher.stderr)
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 130
    assert workers_of(directory) == []
    assert {(one.id, one.owner) for one in training(directory)} == begun
    assert set(known) <= set(finished(directory))
    assert_sound(directory)


@pytest.mark.thorough
def test_a_stop_before_the_first_trained_individual_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "e"
    experiment(directory, f"training.steps={ENDLESS}", "population.lease=10", "workers.count=2")
    with started("run", directory) as launcher:
        wait_until(lambda: all_busy(directory))
        launcher.send_signal(signal.SIGINT)
        _, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 130
    assert "No individual is alive yet" in err
    assert {one.owner for one in training(directory)} == {"free0000"}
