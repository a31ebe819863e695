"""A whole run on three nodes of a Ray cluster, with real training: nodes are killed and join, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genepool.experiment import Experiment

from ..acceptance.processes import COMMAND, assert_sound, finished, genepool, wait_until
from .conftest import TOKEN
from .nodes import doing, kill_hard, kill_in_its_namespace

SMALL = (
    *("--population", 6, "--steps", 150, "--seed", 1, "--set", "time=0", "--set", "lease=3"),
    *("--set", "checkpoint_every=0.5", "--set", "mutation_odds.grow-convolution=0", "--set", "mutation_odds.widen=0"),
)
WORKERS = 3
SABOTAGE = """
from genepool.evolution import SELECTIONS


@SELECTIONS.register("sabotage")
def sabotage(one, other, rng):
    raise ZeroDivisionError("a loose screw")
"""


class Run:
    """`genepool run --engine ray`, with what it has said so far."""

    def __init__(self, directory: Path, address: str, *options: object) -> None:
        self.directory, self.said = directory, directory.parent / f"{directory.name}.said"
        words = ("run", directory, "--engine", "ray", "--address", address, *SMALL, *options)
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [*COMMAND, *map(str, words)],
                stdout=said,
                stderr=said,
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def text(self) -> str:
        return self.said.read_text()

    def wait_until(self, true, seconds: float = 90.0) -> None:
        def or_gone() -> bool:
            assert self.process.poll() is None, self.text()
            return true()

        wait_until(or_gone, seconds)


@pytest.mark.parametrize("way", ["shared", "served"])
def test_a_node_is_killed_and_another_joins_and_nothing_is_lost(way, cluster, tmp_path):
    directory = tmp_path / "e"
    served = way == "served"
    with Run(directory, cluster.address, "--workers", WORKERS, *(["--serve-population"] if served else [])) as run:
        run.wait_until(lambda: len(finished(directory)) >= 3 and len(doing(cluster, "_life")) == WORKERS)
        before = {identity: row.fitness for identity, row in finished(directory).items()}
        kill_hard(cluster, next(iter(cluster.worker_nodes)))
        if served:
            [server] = doing(cluster, "Service")
            os.kill(server, signal.SIGKILL)
        run.wait_until(lambda: len(doing(cluster, "_life")) == WORKERS - 1)
        cluster.add_node(num_cpus=1)
        run.wait_until(lambda: len(doing(cluster, "_life")) == WORKERS)
        after = {identity: row.fitness for identity, row in finished(directory).items()}
        assert before.items() <= after.items()
        assert genepool("set", directory, "workers=2").returncode == 0
        run.wait_until(lambda: len(doing(cluster, "_life")) == 2)
        assert genepool("set", directory, f"individuals={len(finished(directory)) + 2}").returncode == 0
        assert run.process.wait(90) == 0, run.text()
    now = {identity: row.fitness for identity, row in finished(directory).items()}
    assert after.items() <= now.items()
    assert_sound(directory)
    assert "test accuracy" in run.text()
    best = json.loads(genepool("best", directory, "--json").stdout)
    assert Path(best["weights"]).stat().st_size > 0
    if served:
        assert doing(cluster, "Service") == []
    assert os.environ["RAY_AUTH_TOKEN"] == TOKEN
    assert [path for path in (*directory.rglob("*"), run.said) if path.is_file() and TOKEN in read(path)] == []


def read(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_ctrl_c_hands_trainings_over(cluster, tmp_path):
    directory = tmp_path / "e"
    with Run(directory, cluster.address, "--workers", 2, "--set", "steps=1000000") as run:
        run.wait_until(lambda: len(doing(cluster, "_life")) == 2 and len(in_training(directory)) == 2)
        time.sleep(2)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(60) == 130, run.text()
    assert {one.owner for one in in_training(directory)} == {"free0000"}
    assert_sound(directory)


def in_training(directory: Path) -> list:
    if not (directory / "experiment.json").exists():
        return []
    return [one for one in Experiment.open(directory).view().snapshot() if one.state.name == "TRAINING"]


def test_a_bug_in_a_worker_ends_the_run_with_its_message(cluster, tmp_path):
    """In a selection of the user's own."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text(SABOTAGE)
    bug = ("--plugin", plugin, "--set", "selection=sabotage")
    done = genepool("run", tmp_path / "e", "--engine", "ray", "--address", cluster.address, *SMALL, *bug)
    assert done.returncode == 2, done.stderr
    assert re.search(r"Error: Worker \d failed with ZeroDivisionError: a loose screw; .*\n$", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_node_with_another_release_is_refused_by_name(cluster, tmp_path):
    """A node on which Genepool says that it is another one as soon as Python starts."""
    (tmp_path / "sitecustomize.py").write_text("import genepool\ngenepool.__version__ = '0.0.1'\n")
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    try:
        done = genepool("run", tmp_path / "e", "--engine", "ray", "--address", cluster.address, *SMALL)
    finally:
        kill_hard(cluster, node)
    assert done.returncode == 2
    assert re.fullmatch(r"Error: Node .* has Genepool 0\.0\.1, here it is .*\n", done.stderr)


def test_a_directory_that_a_node_does_not_see_is_refused(cluster, tmp_path):
    """A node of the same machine, but with another file system over the folder, as a machine without the mount has."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    start = f"exec {Path(sys.executable).parent / 'ray'} start --address={cluster.address} --num-cpus=1 --block"
    command = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none '{hidden}' && {start}"]
    count = len(alive(cluster))
    with (tmp_path / "said").open("wb") as said:
        node = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + 60
        while len(alive(cluster)) == count and time.monotonic() < deadline:
            if node.poll() is not None:
                pytest.skip(f"no file systems of one's own here: {(tmp_path / 'said').read_text().strip()[-200:]}")
            time.sleep(0.2)
        done = genepool("run", hidden / "e", "--engine", "ray", "--address", cluster.address, *SMALL)
    finally:
        kill_in_its_namespace(node.pid)
        node.wait(60)
        wait_until(lambda: len(alive(cluster)) == count)
    assert done.returncode == 2
    assert re.fullmatch(r"Error: Node .* does not see '.*'; put .*, or add --serve-population.\n", done.stderr)
    assert not list((hidden / "e/logs").iterdir())


def alive(cluster) -> list:
    return [node for node in cluster.global_state.node_table() if node["Alive"]]


def test_a_wrong_token_is_one_sentence_that_does_not_repeat_it(cluster, tmp_path):
    wrong = "wr0ng" * 8
    done = subprocess.run(
        [*COMMAND, "run", str(tmp_path / "e"), "--engine", "ray", "--address", cluster.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "RAY_AUTH_TOKEN": wrong},
    )
    assert done.returncode == 2, done.stderr
    assert "or wants another token" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert wrong not in done.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [("127.0.0.1:1", "No Ray cluster answers at 127.0.0.1:1"), ("nonsense", "is not the address of a Ray cluster")],
)
def test_an_unreachable_address_is_one_sentence(address, words, tmp_path):
    done = genepool("run", tmp_path / "e", "--engine", "ray", "--address", address, *SMALL)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
