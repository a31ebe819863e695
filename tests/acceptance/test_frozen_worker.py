"""A worker that is frozen for longer than its lease, and then wakes up, does no harm."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support.processes import assert_sound, experiment, finished, started, steps_done, training, wait_until


def test_others_take_its_individual_over_and_it_goes_on_with_another(tmp_path: Path) -> None:
    directory = tmp_path / "e"
    slim = ("mutation_odds.grow-convolution=0", "mutation_odds.widen=0")
    experiment(directory, "steps=600", "lease=1.5", *slim)
    with started("worker", directory, "--number", 0) as sleeper:
        wait_until(lambda: training(directory))
        [one] = training(directory)
        with started("worker", directory, "--number", 1) as other:
            wait_until(lambda: any(steps_done(directory, each.owner) for each in training(directory)))
            mine = frozen_while_training(sleeper, directory, one.owner)
            wait_until(lambda: not any(each.owner == one.owner for each in training(directory)))
            wait_until(lambda: mine in finished(directory))
            heartbeat = (directory / "workers" / one.owner / "heartbeat").read_bytes()
            sleeper.send_signal(signal.SIGCONT)
            wait_until(lambda: (directory / "workers" / one.owner / "heartbeat").read_bytes() != heartbeat)
            wait_until(lambda: any(row.individual.attempt.endswith(one.owner) for row in finished(directory).values()))
            for worker in (sleeper, other):
                worker.terminate()
                assert worker.wait(20) == 0
    row = finished(directory)[mine]
    assert not row.individual.attempt.endswith(one.owner)
    assert {each.owner for each in training(directory)} <= {"free0000"}
    assert_sound(directory)


def frozen_while_training(sleeper, directory: Path, who: str) -> str:
    """Stops a worker in the middle of a training, and tells which."""
    while True:
        sleeper.send_signal(signal.SIGSTOP)
        busy = [each.id for each in training(directory) if each.owner == who]
        if busy:
            return busy[0]
        sleeper.send_signal(signal.SIGCONT)
