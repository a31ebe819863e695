"""Killed at any moment, real trainings on the shipped images are gone on with: nothing finished is lost."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import torch

from genepool.data.dataset import prepare
from genepool.experiment import Experiment
from tests.support.processes import (
    assert_sound,
    experiment,
    finished,
    genepool,
    started,
    steps_done,
    training,
    wait_until,
    workers_of,
)

SMALL = (
    *("--workers", 2, "--population", 6, "--steps", 100, "--seed", 1, "--set", "time=0", "--set", "lease=2"),
    *("--set", "mutation_odds.grow-convolution=0", "--set", "mutation_odds.widen=0"),
)


def test_a_run_killed_at_ten_random_moments_and_restarted_loses_nothing(tmp_path: Path) -> None:
    directory, rng = tmp_path / "e", Random(1)
    command = ("run", directory, *SMALL)
    known: dict[str, float | None] = {}
    for blow in range(10):
        with started(*command) as launcher:
            if blow % 3 == 2:  # on a busy machine the others may all come before the first training has ended
                wait_until(lambda known=known: len(finished(directory)) > len(known))
            time.sleep(rng.uniform(0.2, 4.0))
            launcher.kill()
            launcher.wait()
            if rng.random() < 0.5:
                for worker in workers_of(directory):
                    os.kill(worker, signal.SIGKILL)
            else:
                wait_until(lambda: not workers_of(directory))  # they notice that nobody wants them any more
        now = {identity: row.fitness for identity, row in finished(directory).items()}
        assert known.items() <= now.items()
        known = now
    assert known, "nobody was ever finished"
    result = genepool(*command, "--individuals", len(known) + 5)
    assert result.returncode == 0, result.stderr
    now = {identity: row.fitness for identity, row in finished(directory).items()}
    assert known.items() < now.items()
    assert workers_of(directory) == []
    assert_sound(directory)


def test_a_training_that_is_nine_tenths_done_is_resumed_not_repeated(tmp_path: Path) -> None:
    steps, directory = 10_000, tmp_path / "e"
    made = experiment(directory, f"steps={steps}", "lease=1", "individuals=1")
    with started("worker", directory, "--number", "0") as first:
        wait_until(lambda: training(directory))
        [one] = training(directory)
        began = time.monotonic()
        wait_until(lambda: steps_done(directory, one.owner) >= 0.88 * steps)
        took = time.monotonic() - began
        first.terminate()
        assert first.wait(10) == 0
    [free] = training(directory)
    assert (free.id, free.owner) == (one.id, "free0000")
    result = genepool("worker", directory, "--number", "1")
    assert result.returncode == 0, result.stderr
    [row] = finished(directory).values()
    assert (row.id, row.evaluation.steps) == (one.id, steps)
    assert row.evaluation.seconds < took / 3
    told = [step for step, _ in row.evaluation.losses]
    assert told[0] == 50
    assert len({b - a for a, b in pairwise(told)}) == 1
    assert made.view().weights(row.individual) == unbroken(made, row.id)
    assert_sound(directory)


def unbroken(made: Experiment, identity: str) -> bytes | None:
    """The weights of the same training without a break."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    row = made.history().rows[identity]
    evaluator = made.evaluators(prepare(made.source()), "cpu")(row.birth.settings_version)
    weights = evaluator.evaluate(row.dna, seed=row.birth.training_seed).weights
    torch.set_num_threads(threads)
    return weights


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_hands_its_training_over(number: signal.Signals, tmp_path: Path) -> None:
    directory = tmp_path / "e"
    experiment(directory, "steps=1000000", "lease=1")
    with started("worker", directory) as worker:
        wait_until(lambda: training(directory) and steps_done(directory, training(directory)[0].owner) > 100)
        worker.send_signal(number)
        assert worker.wait(10) == 0
        assert "it received SIG" in worker.stderr.read()
    [free] = training(directory)
    assert free.owner == "free0000"
    assert made_progress(directory)
    assert_sound(directory)


def made_progress(directory: Path) -> bool:
    view = Experiment.open(directory).view()
    [free] = training(directory)
    checkpoint = view.checkpoint(free)
    return checkpoint is not None and checkpoint.step > 100
