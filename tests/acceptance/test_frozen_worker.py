"""A worker that is frozen for longer than its lease, and then wakes up, does no harm."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support.processes import (
    PATIENCE,
    assert_sound,
    experiment,
    finished,
    started,
    steps_done,
    training,
    wait_until,
)


@pytest.mark.thorough
def test_others_take_its_individual_over_and_it_goes_on_with_another(tmp_path: Path) -> None:
    directory = tmp_path / "e"
    slim = ("breeding.odds.grow-convolution=0", "breeding.odds.widen=0")
    experiment(directory, "training.steps=600", "population.lease=5", *slim)
    with started("worker", directory, "--number", 0) as sleeper:
        owners: list[str] = []
        wait_until(lambda: owners.extend(one.owner for one in training(directory)) or owners)
        who = owners[0]
        with started("worker", directory, "--number", 1) as other:
            wait_until(lambda: any(steps_done(directory, each.owner) for each in training(directory)))
            mine = frozen_while_training(sleeper, directory, who)
            wait_until(lambda: not any(each.owner == who for each in training(directory)))
            wait_until(lambda: mine in finished(directory))
            heartbeat = (directory / "workers" / who / "heartbeat").read_bytes()
            sleeper.send_signal(signal.SIGCONT)
            wait_until(lambda: (directory / "workers" / who / "heartbeat").read_bytes() != heartbeat)
            wait_until(lambda: any(row.individual.attempt.endswith(who) for row in finished(directory).values()))
            for worker in (sleeper, other):
                worker.terminate()
                assert worker.wait(PATIENCE) == 0
    row = finished(directory)[mine]
    assert not row.individual.attempt.endswith(who)
    assert {each.owner for each in training(directory)} <= {"free0000"}
    assert_sound(directory)


def frozen_while_training(sleeper, directory: Path, who: str) -> str:
    """Stops a worker in the middle of a training, and tells which; a result that is there already would be adopted."""
    while True:
        sleeper.send_signal(signal.SIGSTOP)
        busy = [each.id for each in training(directory) if each.owner == who]
        if busy and not list(directory.glob(f"pop/*/*_{busy[0]}_*/*-{who}.*")):
            return busy[0]
        sleeper.send_signal(signal.SIGCONT)
        time.sleep(0.05)
