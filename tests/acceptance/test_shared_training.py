"""Workers share the training of the final phase: they are killed at any moment, and nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest
import torch

from genepool.analysis import Row
from genepool.data import prepare
from genepool.dna import requirements
from genepool.experiment import Experiment
from genepool.experiment.replay import replay
from genepool.experiment.start import Start
from genepool.settings import changed, override, preset
from tests.support.networks import chain, conv
from tests.support.processes import COMMAND, PATIENCE, assert_sound, finished, training, wait_until

DNA = chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b", depth_factor=2.0, stride_scale=1.0))
BATCH = 50


def shared_experiment(directory: Path, steps: int, trainings: int = 20) -> Experiment:
    """A tenth of the trainings are evolution, and all others the final phase. Without time, each has all steps."""
    settings = [
        *(f"training.steps={steps}", f"training.batch={BATCH}", "training_budget.share=none", "budget.time=none"),
        *("population.lease=2", "training.checkpoint_every=0.5", "final_phase.share=0.9", "training.precision=float32"),
        *("breeding.width_step=1", "limits.child_steps=none"),
    ]
    made = changed(override(preset("laptop"), settings), {"breeding.odds": {"alter-learning-rate": 1.0}})
    data = prepare(made.data.open())
    flops = trainings * steps * requirements(DNA, data.image, 10, BATCH).training.total
    start = Start("test", DNA)
    return Experiment.create(directory, override(made, [f"budget.flops={flops}"]), start)


class Workers:
    """Workers of one experiment, by their numbers; each is started again when it was killed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        words = [*COMMAND, "worker", str(self._directory), "--number", str(number), "--device", "cpu"]
        with (self._directory.parent / f"worker-{number}.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(words, stdout=log, stderr=log)

    def send(self, number: int, what: signal.Signals) -> int:
        self.processes[number].send_signal(what)
        return self.processes[number].wait(PATIENCE)

    def who(self, number: int) -> str | None:
        """The ID of the worker in a process."""
        for path in (self._directory / "workers").glob("*/info.json"):
            if json.loads(path.read_text())["process"] == self.processes[number].pid:
                return path.parent.name
        return None

    def doing(self, number: int) -> str:
        if (who := self.who(number)) is None:
            return ""
        _, phase, *_ = Experiment.open(self._directory).view().worker(who).heartbeat().decode().split() or ["", ""]
        return phase

    def _invites(self, who: str) -> bool:
        return (self._directory / "workers" / who / "invitation.json").exists()

    def roles(self) -> tuple[int, int] | None:
        """The numbers of the leader and of a peer that helps it."""
        owners = {one.owner for one in training(self._directory)}
        leaders = [number for number in self.processes if (who := self.who(number)) in owners and self._invites(who)]
        helpers = [n for n in self.processes if n not in leaders and self.doing(n) == "help"]
        return (leaders[0], helpers[0]) if leaders and helpers else None


@contextmanager
def two_workers(directory: Path) -> Iterator[Workers]:
    workers = Workers(directory)
    try:
        for number in (0, 1):
            workers.start(number)
        yield workers
    finally:
        for process in workers.processes.values():
            process.kill()
            process.wait()


def shared(directory: Path) -> list[Row]:
    """The finished trainings that several workers shared."""
    return [row for row in finished(directory).values() if row.evaluation.slices]


def slices_changed(row: Row) -> int:
    return len(row.evaluation.slices)


def assert_repeats(made: Experiment, row: Row) -> None:
    """One process that repeats the lineage computes the same weights."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    evaluators = made.evaluators(prepare(made.source()), "cpu")
    *_, last = replay(made, made.history(), row.id, evaluators)
    torch.set_num_threads(before)
    assert last.agrees
    assert last.trained.weights == made.view().weights(row.individual)
    assert last.trained.evaluation.flops == row.evaluation.flops


@pytest.mark.parametrize("blows", [2, pytest.param(20, marks=pytest.mark.thorough)])
def test_a_peer_killed_at_random_moments_does_not_disturb_the_training(blows: int, tmp_path: Path) -> None:
    directory, steps, rng = tmp_path / "e", 300, Random(1)
    made = shared_experiment(directory, steps, trainings=100 if blows > 5 else 20)
    known: dict[str, float | None] = {}
    with two_workers(directory) as workers:
        for _ in range(blows):
            wait_until(workers.roles)
            time.sleep(rng.uniform(0, 1))
            if (roles := workers.roles()) is None:  # the training has just ended
                wait_until(workers.roles)
                roles = workers.roles()
            _, peer = roles or (0, 1)
            workers.send(peer, signal.SIGKILL)
            workers.start(peer)
            now = {identity: row.fitness for identity, row in finished(directory).items()}
            assert known.items() <= now.items()
            known = now
        count = len(shared(directory))
        wait_until(lambda: len(shared(directory)) > count)
        wait_until(workers.roles)
        _, peer = workers.roles() or (0, 1)
        assert workers.send(peer, signal.SIGTERM) == 0
        assert workers.send(1 - peer, signal.SIGTERM) == 0
    assert {row.evaluation.steps for row in finished(directory).values()} == {steps}
    assert not [row for row in made.history().rows.values() if row.state.name == "FAILED"]
    alive = {row.id for row in made.population()}
    assert_repeats(made, max((row for row in shared(directory) if row.id in alive), key=slices_changed))
    assert_sound(directory)


def test_a_peer_takes_over_from_a_leader_that_was_killed(tmp_path: Path) -> None:
    directory, steps = tmp_path / "e", 1500
    made = shared_experiment(directory, steps, trainings=20)
    with two_workers(directory) as workers:
        wait_until(workers.roles)
        leader, _ = workers.roles() or (0, 1)
        [orphan] = training(directory)
        wait_until(lambda: made.view().checkpoint(orphan) is not None)
        workers.send(leader, signal.SIGKILL)
        workers.start(leader)
        wait_until(lambda: orphan.id in finished(directory))
    row = finished(directory)[orphan.id]
    assert row.evaluation.steps == steps
    assert row.evaluation.resumed > 0
    assert [slices for _, slices in row.evaluation.slices][:2] == [2, 1]  # together, and alone after the takeover
    assert_repeats(made, row)
    assert_sound(directory)


def test_a_worker_that_starts_late_joins(tmp_path: Path) -> None:
    directory = tmp_path / "e"
    shared_experiment(directory, 1000, trainings=20)
    with two_workers(directory) as workers:
        workers.send(1, signal.SIGTERM)
        wait_until(lambda: workers.who(0) and list(directory.glob("workers/*/invitation.json")))
        workers.start(1)
        wait_until(workers.roles)
        wait_until(lambda: shared(directory))
    [(step, slices), *_] = shared(directory)[0].evaluation.slices
    assert slices == 2
    assert step > 0
    assert msgspec.to_builtins(shared(directory)[0].evaluation)["slices"]
