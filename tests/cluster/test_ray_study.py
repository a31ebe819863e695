"""A whole study on three nodes of a Ray cluster: a node is killed, then the driver, and everything is finished once."""

from __future__ import annotations

import signal

from tests.support.processes import finished, wait_until
from tests.support.ray_processes import doing, kill_hard
from tests.support.studies import Study


def test_a_node_and_the_driver_are_killed_and_every_experiment_is_finished_once(cluster, tmp_path):
    study = Study(tmp_path, repeats=2, lease=3, workers=2, steps=400, individuals=8)
    ray = ("--engine", "ray", "--address", cluster.address, "--parallel", 2)
    try:
        first = study.start(*ray)
        wait_until(lambda: sum(len(finished(path)) for path in study.experiments()) >= 3)
        kill_hard(cluster, next(iter(cluster.worker_nodes)))
        before = {path: set(finished(path)) for path in study.experiments()}
        wait_until(lambda: any(len(finished(path)) > len(known) for path, known in before.items()))
        outcomes = {path: path.read_bytes() for path in study.folder.glob("*/*/outcome.json")}
        first.signal(signal.SIGKILL)
        first.end()
        wait_until(lambda: not doing(cluster, "_run_worker"))  # Ray ends the tasks of a driver that is gone
        second = study.start(*ray)
        assert second.end() == 0, second.text()
        assert all(path.read_bytes() == was for path, was in outcomes.items())
        assert all(known <= finished(path).keys() for path, known in before.items())
        study.assert_complete(4)
    finally:
        study.clean_up()
        cluster.add_node(num_cpus=1)  # for the tests that follow
