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

from genepool.data import prepare
from genepool.evaluation import Progress, TrainingRequest
from genepool.evolution.training import CHECK_EVERY
from genepool.experiment import Experiment
from tests.support.in_process import work_on
from tests.support.processes import (
    PATIENCE,
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
    *(
        "--workers",
        2,
        "--population",
        6,
        "--steps",
        100,
        "--seed",
        1,
        "--set",
        "budget.time=none",
        "--set",
        "population.lease=2",
    ),
    *("--set", "breeding.odds.grow-convolution=0", "--set", "breeding.odds.widen=0"),
)


@pytest.mark.parametrize("blows", [3, pytest.param(10, marks=pytest.mark.thorough)])
def test_a_run_killed_at_random_moments_and_restarted_loses_nothing(blows: int, tmp_path: Path) -> None:
    directory, rng = tmp_path / "e", Random(1)
    command = ("run", directory, *SMALL)
    known: dict[str, float | None] = {}
    for blow in range(blows):
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


def test_a_training_that_is_nine_tenths_done_is_resumed_not_repeated(tmp_path: Path, monkeypatch) -> None:
    steps, directory = 2_000, tmp_path / "e"
    made = experiment(directory, f"training.steps={steps}", "budget.individuals=1")
    seen: list[int] = []
    with monkeypatch.context() as within:
        within.setattr(Experiment, "evaluators", stopped_at(1_800, seen))
        work_on(made)
        assert seen[-1] == 1_800
        [free] = training(directory)
        assert free.owner == "free0000"
        seen.clear()
        work_on(made)
    assert seen[0] > 1_800
    [row] = finished(directory).values()
    assert (row.id, row.evaluation.steps) == (free.id, steps)
    told = [step for step, _ in row.evaluation.losses]
    assert told[0] == 50
    assert len({b - a for a, b in pairwise(told)}) == 1
    assert made.view().weights(row.individual) == unbroken(made, row.id)
    assert_sound(directory)


def stopped_at(step: int, seen: list[int]) -> object:
    """Evaluators of a worker in this process that gets a SIGTERM at that step; they note which steps they see."""
    evaluators = Experiment.evaluators

    def observed_evaluators(self: Experiment, *words: object) -> object:
        ours = evaluators(self, *words)
        return lambda version: Observed(ours(version))

    class Observed:
        def __init__(self, evaluator) -> None:
            self._evaluator = evaluator

        def evaluate(self, request, observe):
            def look(progress: Progress) -> None:
                seen.append(progress.step)
                if progress.step == step:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(CHECK_EVERY)  # a worker checks no more often whether to stop
                observe(progress)

            return self._evaluator.evaluate(request, look)

    return observed_evaluators


def unbroken(made: Experiment, identity: str) -> bytes | None:
    """The weights of the same training without a break."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    row = made.history().rows[identity]
    evaluator = made.evaluators(prepare(made.source()), "cpu")(row.birth.settings_version)
    weights = evaluator.evaluate(TrainingRequest(row.dna, seed=row.birth.training_seed)).weights
    torch.set_num_threads(threads)
    return weights


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_hands_its_training_over(number: signal.Signals, tmp_path: Path) -> None:
    directory = tmp_path / "e"
    experiment(directory, "training.steps=1000000", "population.lease=1")
    with started("worker", directory) as worker:
        wait_until(lambda: training(directory) and steps_done(directory, training(directory)[0].owner) > 100)
        worker.send_signal(number)
        assert worker.wait(PATIENCE) == 0
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
