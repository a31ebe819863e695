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

SMALL = (
    *("--population", 6, "--steps", 150, "--seed", 1, "--set", "time=0", "--set", "lease=3"),
    *("--set", "checkpoint_every=0.5", "--set", "mutation_odds.grow-convolution=0", "--set", "mutation_odds.widen=0"),
)
WORKERS = 3


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

    def at_work(self) -> int:
        """Workers, by the last line of the live view."""
        told = re.findall(r"(\d+) workers,", self.text())
        return int(told[-1]) if told else 0

    def wait_until(self, true, seconds: float = 90.0) -> None:
        def or_gone() -> bool:
            assert self.process.poll() is None, self.text()
            return true()

        wait_until(or_gone, seconds)


def processes_of(node) -> list[int]:
    """The workers that Ray has started on a node, by the node's number in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and f"--node-id={node.node_id}".encode() in words and b"default_worker" in words:
            found.append(int(entry.name))
    return found


def kill_hard(cluster, node) -> None:
    """As a power cut does: the raylet and everything that it has started, at once."""
    for process in processes_of(node):
        os.kill(process, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


@pytest.mark.parametrize("way", ["shared", "served"])
def test_a_node_is_killed_and_another_joins_and_nothing_is_lost(way, cluster, tmp_path):
    directory = tmp_path / "e"
    served = way == "served"
    with Run(directory, cluster.address, "--workers", WORKERS, *(["--serve-population"] if served else [])) as run:
        run.wait_until(lambda: len(finished(directory)) >= 3 and run.at_work() == WORKERS)
        before = {identity: row.fitness for identity, row in finished(directory).items()}
        kill_hard(cluster, next(iter(cluster.worker_nodes)))
        if served:
            [server] = actors("Service")
            os.kill(server, signal.SIGKILL)
        run.wait_until(lambda: run.at_work() == WORKERS - 1)
        cluster.add_node(num_cpus=1)
        run.wait_until(lambda: run.at_work() == WORKERS)
        after = {identity: row.fitness for identity, row in finished(directory).items()}
        assert before.items() <= after.items()
        assert genepool("set", directory, "workers=2").returncode == 0
        run.wait_until(lambda: run.at_work() == 2)
        assert genepool("set", directory, f"individuals={len(finished(directory)) + 2}").returncode == 0
        assert run.process.wait(90) == 0, run.text()
    now = {identity: row.fitness for identity, row in finished(directory).items()}
    assert after.items() <= now.items()
    assert_sound(directory)
    assert "test accuracy" in run.text()
    best = json.loads(genepool("best", directory, "--json").stdout)
    assert Path(best["weights"]).stat().st_size > 0
    if served:
        assert actors("Service") == []
    assert os.environ["RAY_AUTH_TOKEN"] == TOKEN
    assert [path for path in (*directory.rglob("*"), run.said) if path.is_file() and TOKEN in read(path)] == []


def actors(name: str) -> list[int]:
    """Processes of an actor class, by the title that Ray gives them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and title.startswith(f"ray::{name}".encode()):
            found.append(int(entry.name))
    return found


def read(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_ctrl_c_hands_trainings_over(cluster, tmp_path):
    directory = tmp_path / "e"
    with Run(directory, cluster.address, "--workers", 2, "--set", "steps=1000000") as run:
        run.wait_until(lambda: run.at_work() == 2 and len(in_training(directory)) == 2)
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
    """A plug-in's: an entry of the experiment that only the worker stumbles over."""
    directory = tmp_path / "e"
    made = genepool("run", directory, *SMALL, "--workers", 1, "--individuals", 1)
    assert made.returncode == 0, made.stderr
    # A folder where the store wants to write its own: whoever begins there meets it.
    (directory / "workers").rename(directory / "workers-of-old")
    (directory / "workers").write_text("not a folder")
    done = genepool("run", directory, "--engine", "ray", "--address", cluster.address, "--individuals", 9)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()[-1:]) == 1
    assert "workers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_node_with_another_release_is_refused_by_name(cluster, tmp_path):
    other = tmp_path / "other/genepool"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text('__version__ = "0.0.1"\n')
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(other.parent)})
    try:
        done = genepool("run", tmp_path / "e", "--engine", "ray", "--address", cluster.address, *SMALL)
    finally:
        kill_hard(cluster, node)
    assert done.returncode == 2
    assert re.fullmatch(r"Error: Node .* has Genepool 0\.0\.1, here it is .*\n", done.stderr)


def test_a_directory_that_a_node_does_not_see_is_refused(cluster, tmp_path):
    """Nodes of one machine see the same files, so one of them is made blind: it cannot read below the directory."""
    pytest.importorskip("ray")
    from genepool.engines import ray_nodes
    from genepool.errors import EngineError

    script = (
        "from pathlib import Path; import sys; from genepool.engines import ray_nodes as nodes\n"
        f"ray = nodes.join({cluster.address!r})\n"
        "def question():\n"
        "    def blind(marker):\n"
        "        import genepool\n"
        "        return genepool.__version__, None\n"
        "    return blind\n"
        "nodes._question = question\n"
        "try:\n"
        f"    nodes.check_nodes(ray, Path({str(tmp_path)!r}), {{'CPU': 1.0}})\n"
        "except nodes.EngineError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert "does not see" in done.stdout
    assert "--serve-population" in done.stdout
    assert issubclass(ray_nodes.EngineError, EngineError)
    assert not list((tmp_path / "logs").iterdir())


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
    assert "wants a token, or another one than yours" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert wrong not in done.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [("127.0.0.1:1", "No Ray cluster answers at 127.0.0.1:1"), ("nonsense", "is no address of a Ray cluster")],
)
def test_an_unreachable_address_is_one_sentence(address, words, tmp_path):
    done = genepool("run", tmp_path / "e", "--engine", "ray", "--address", address, *SMALL)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_machine_too_busy_for_ray_is_one_sentence(tmp_path):
    """Ray gives up when its parts have not answered in time; here they cannot start at all."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(
        "import sys, time\nif any('agent' in word for word in sys.argv): time.sleep(100)\n"
    )
    done = subprocess.run(
        [*COMMAND, "run", str(tmp_path / "e"), "--engine", "ray", "--address", "local", *map(str, SMALL)],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )
    assert done.returncode == 2, done.stderr
    assert "Ray did not start in time" in done.stderr
