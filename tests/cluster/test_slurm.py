"""A real Slurm of one node runs an array of two workers; one is pre-empted and requeued, and its training resumed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genepool.experiment import Experiment
from genepool.population import State
from genepool.settings import override, preset

from ..acceptance.processes import assert_sound, finished, steps_done, workers_of
from .slurm import Slurm, installed, wait_until

STEPS = 6_000


@pytest.fixture
def slurm(tmp_path):
    why = installed()
    if why is not None:  # a green run without Slurm must not look like one with it
        pytest.fail(f"Slurm cannot be tested: {why}; GENEPOOL_CLUSTER=ray leaves it out.")
    one = Slurm(tmp_path / "slurm")
    try:
        with one:
            yield one
    except AssertionError as error:
        raise AssertionError(f"{error}\n{one.words()}") from error


def training(directory: Path) -> list:
    return [one for one in Experiment.open(directory).view().snapshot() if one.state is State.TRAINING]


def test_a_preempted_job_is_requeued_and_its_training_resumed(slurm, tmp_path):
    directory = tmp_path / "e"
    settings = (f"steps={STEPS}", "share=0", "finish=0", "time=0", "lease=3", "checkpoint_every=0.5", "individuals=3")
    odds = ("mutation_odds.grow-convolution=0", "mutation_odds.widen=0")
    Experiment.create(directory, override(preset("laptop"), [*settings, *odds]))
    done = subprocess.run(
        [sys.executable, "-m", "genepool", "launch", "slurm", str(directory), "--workers", "2", "--submit"],
        env=slurm.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + slurm.words()
    job = done.stdout.split()[-1]
    wait_until(lambda: len(training(directory)) == 2, "training", 60)
    wait_until(lambda: all(steps_done(directory, one.owner) > 500 for one in training(directory)), "progress", 60)

    # Told to go (SIGTERM) and, because it does not go in time, ended (SIGKILL): it is frozen, as often as it is woken.
    [victim, *_] = [pid for pid in workers_of(directory) if number_of(pid) == "1"]
    os.kill(victim, signal.SIGSTOP)
    assert "error" not in slurm.run("scontrol", "requeue", f"{job}_1").lower()
    wait_until(lambda: gone(victim), "the end of the worker", 60)

    # The same once more by SIGTERM alone: the worker hands its training over and goes.
    [other, *_] = [pid for pid in workers_of(directory) if number_of(pid) == "0"]
    before = {one.id: one.owner for one in training(directory)}
    slurm.run("scontrol", "requeue", f"{job}_0")
    wait_until(lambda: not Path(f"/proc/{other}").exists(), "the end of the other worker", 60)

    # What was begun is finished by whoever comes back. Slurm lets a requeued job wait for two minutes by itself.
    for task in (0, 1):
        slurm.run("scontrol", "release", f"{job}_{task}")
        slurm.run("scontrol", "update", f"JobId={job}_{task}", "StartTime=now")
    wait_until(lambda: len(finished(directory)) >= 3, "the end of the experiment", 170)
    assert set(before) <= set(finished(directory))
    resumed = [row for row in finished(directory).values() if row.id in before]
    assert all(row.evaluation.steps == STEPS for row in resumed)
    log = "".join(path.read_text() for path in (directory / "logs").glob("slurm-*.log"))
    assert "told to by SIGTERM" in log
    time.sleep(1)
    assert_sound(directory)


def gone(victim: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGSTOP)
        return False
    return True


def number_of(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[words.index(b"--number") + 1].decode() if b"--number" in words and b"srun" not in words[0] else ""
