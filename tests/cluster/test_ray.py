"""Whole runs on three nodes of a Ray cluster, with real training: nodes are killed and join, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from genepool.dashboard import export
from genepool.data import prepare
from genepool.dna import Shape, initial, requirements
from genepool.experiment import Experiment
from genepool.experiment.replay import replay
from genepool.settings import changed, override, preset
from tests.cluster.conftest import TOKEN
from tests.support.dashboards import Client
from tests.support.processes import assert_sound, finished, genepool, steps_done, training
from tests.support.ray_processes import children, doing, kill_hard, raylet_of
from tests.support.ray_runs import PATIENCE, SMALL, Run, RunInATerminal

WORKERS = 3
PAGE = ("--dashboard",) if (export.FOLDER / "page.js").exists() else ()
"""It does not start where it was never built."""
SABOTAGE = """
from genepool.evolution import SELECTIONS


@SELECTIONS.register("sabotage")
def sabotage(one, other, rng):
    raise ZeroDivisionError("a loose screw")
"""


@pytest.mark.parametrize("way", ["shared", "served"])
def test_a_node_is_killed_and_another_joins_and_nothing_is_lost(way, cluster, tmp_path):
    directory = tmp_path / "e"
    served = ("--serve-population",) if way == "served" else ()
    with Run(directory, cluster.address, "--workers", WORKERS, *PAGE, *served) as run:
        run.wait_until(lambda: len(finished(directory)) >= 3 and len(doing(cluster, "_run_worker")) == WORKERS)
        before = fitness_of_all(directory)
        if not served:
            run.wait_until(
                lambda: all("train_pixels.npy" in maps(process) for process in doing(cluster, "_run_worker"))
            )
        kill_hard(cluster, next(iter(cluster.worker_nodes)))
        if served:
            [server] = doing(cluster, "Service")
            os.kill(server, signal.SIGKILL)
        run.wait_until(lambda: len(doing(cluster, "_run_worker")) == WORKERS - 1)
        between = len(fitness_of_all(directory))
        run.wait_until(lambda: len(fitness_of_all(directory)) > between)  # the others go on
        cluster.add_node(num_cpus=1)
        run.wait_until(lambda: len(doing(cluster, "_run_worker")) == WORKERS)
        run.wait_until(lambda: re.search(rf"\b{WORKERS} workers, ", run.text()))
        if PAGE:
            assert_watched(run)
        after = fitness_of_all(directory)
        assert before.items() <= after.items()
        assert genepool("set", directory, "workers.count=2").returncode == 0
        run.wait_until(lambda: len(doing(cluster, "_run_worker")) == 2)
        assert genepool("set", directory, f"budget.individuals={len(after) + 3}").returncode == 0
        assert run.end() == 0, run.text()
    assert after.items() <= fitness_of_all(directory).items()
    assert_sound(directory)
    assert_usable(directory)
    assert doing(cluster, "Service") == []
    if served:
        assert_goes_on_in_another_cluster(directory)
    assert os.environ["RAY_AUTH_TOKEN"] == TOKEN
    logs = Path(cluster.head_node.get_logs_dir_path()).glob("worker-*")
    places = [path for path in (*directory.rglob("*"), *logs, run.said) if path.is_file()]
    assert [path for path in places if TOKEN.encode() in path.read_bytes()] == []


def fitness_of_all(directory: Path) -> dict[str, float]:
    return {identity: row.fitness for identity, row in finished(directory).items()}


def maps(process: int) -> str:
    return Path(f"/proc/{process}/maps").read_text()


def assert_watched(run: Run) -> None:
    """The page that the run serves shows its workers, wherever they are."""
    [address] = re.findall(r"http://\S+", run.text())
    client = Client(address)
    [key] = client.keys().values()
    run.wait_until(lambda: client.status(key)["rows"] >= 3)
    # One that has just joined shows when the page's server looks again.
    run.wait_until(lambda: len(client.get(f"/api/experiments/{key}/workers")["workers"]) >= WORKERS)


def assert_usable(directory: Path) -> None:
    """The best model says of the validation images what its record promises."""
    best = json.loads(genepool("best", directory, "--json").stdout)
    experiment = Experiment.open(directory)
    data = prepare(experiment.source())
    guesses = experiment.model().probabilities(np.asarray(data.validation_pixels)).argmax(1)
    assert (guesses == data.validation_labels).mean() == pytest.approx(best["accuracy"], abs=0.002)
    assert best["test_accuracy"] > 0.1


def assert_goes_on_in_another_cluster(directory: Path) -> None:
    """The population is in the directory, not in the cluster: another one, of this machine alone, goes on."""
    before = fitness_of_all(directory)
    more = ("--workers", 1, "--individuals", len(before) + 1)
    done = genepool("run", directory, "--engine", "ray", "--address", "local", "--serve-population", *more)
    assert done.returncode == 0, done.stderr
    after = fitness_of_all(directory)
    assert before.items() < after.items()
    assert_sound(directory)


def test_ctrl_c_in_a_terminal_hands_trainings_over(cluster, tmp_path):
    """By two workers that share the one GPU of the cluster, which only Ray believes in."""
    directory = tmp_path / "e"
    share = ("--cpus-per-worker", 0.5, "--gpus-per-worker", 0.25)
    with RunInATerminal(directory, cluster.address, "--workers", 2, *share, "--set", "training.steps=1000000") as run:
        run.wait_until(lambda: len(doing(cluster, "_run_worker")) == 2 and "2 running" in run.text())
        run.wait_until(lambda: sum(steps_done(directory, one.owner) > 0 for one in training(directory)) == 2)
        with_gpu = [process for process, _ in children(raylet_of(cluster.head_node))]
        assert {*doing(cluster, "_run_worker")} <= {*with_gpu}
        run.press(b"\x03")
        assert run.end() == 130, run.text()
    assert "Stopping: trainings are handed over." in run.text()
    assert {one.owner for one in training(directory)} == {"free0000"}
    assert_sound(directory)


def test_workers_of_a_ray_of_our_own_have_our_priority():
    """Ray's own choice would be the lowest but four, and any other process would slow trainings down."""
    words = "from genepool.workers.ray.nodes import join; import os; ray = join('local')"
    words += "; print(ray.get(ray.remote(lambda: os.nice(0)).remote()))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.strip() == str(os.nice(0)), done.stderr


def test_a_bug_in_a_worker_ends_the_run_with_its_message(cluster, tmp_path, monkeypatch):
    """In a selection of the user's own, named as seen from the user's folder."""
    (tmp_path / "plugin.py").write_text(SABOTAGE)
    monkeypatch.chdir(tmp_path)
    with Run(tmp_path / "e", cluster.address, "--plugin", "plugin.py", "--set", "population.selection=sabotage") as run:
        assert run.process.wait(PATIENCE) == 2
    assert re.search(r"\nError: Worker \d failed with ZeroDivisionError: a loose screw; .*\n$", "\n" + run.text())
    assert "Traceback" not in run.text()


class ContinuedRun(Run):
    """A run of an experiment that exists, with its own settings."""

    def _start(self, words: list[str], said: object, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return super()._start([word for word in words if word not in map(str, SMALL)], said, environment)


def shared_experiment(directory: Path, steps: int) -> Experiment:
    """Two individuals are trained first; then comes the final phase."""
    settings = override(
        preset("laptop"),
        [
            *(f"training.steps={steps}", "training.batch=100", "training_budget.share=none", "budget.time=none"),
            *("population.lease=3", "final_phase.share=0.9", "training.precision=float32", "limits.child_steps=none"),
        ],
    )
    settings = changed(settings, {"breeding.odds": {"alter-learning-rate": 1.0}})
    flops = 20 * steps * requirements(initial(), Shape(28, 28, 1), 10, 100).training.total
    return Experiment.create(directory, changed(settings, {"budget.flops": float(flops)}))


@pytest.mark.parametrize("way", ["shared", "served"])
def test_the_final_phase_is_shared_over_nodes(way, cluster, tmp_path):
    """By the workers of four nodes, which reach each other at their nodes' addresses."""
    directory, steps, fourth = tmp_path / "e", 20_000, cluster.add_node(num_cpus=1)
    experiment = shared_experiment(directory, steps)
    served = ("--serve-population",) if way == "served" else ()
    try:
        with ContinuedRun(directory, cluster.address, "--workers", 4, *served) as run:
            run.wait_until(lambda: any(row.evaluation.slices for row in finished(directory).values()))
            run.process.send_signal(signal.SIGTERM)
            run.end()
    finally:
        cluster.remove_node(fourth)
    first, *_ = shared = [row for row in finished(directory).values() if row.evaluation.slices]
    assert max(slices for row in shared for _, slices in row.evaluation.slices) > 1
    assert {row.evaluation.steps for row in shared} == {steps}
    evaluators = experiment.evaluators(prepare(experiment.source()), "cpu")
    *_, last = replay(experiment, experiment.history(), first.id, evaluators)
    assert last.agrees
    assert last.trained.evaluation.slices == first.evaluation.slices
    assert_sound(directory)
