"""What a Ray cluster can be that Genepool cannot use: one sentence each, and exit code 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.processes import wait_until
from tests.support.ray_processes import doing, kill_hard, kill_in_its_namespace
from tests.support.ray_runs import PATIENCE, Run, command

WRONG = "wr0ng" * 8
OLDER = """
import sys, types
import genepool
genepool.__version__ = "0.0.1"
sys.modules["genepool.experiment.worker_process"] = types.ModuleType("worker_process")  # it did not have that yet
"""
SLOW = """
import sys, time
if any(word.endswith("agent.py") for word in sys.orig_argv):
    time.sleep(45)
"""


@pytest.fixture(scope="module", autouse=True)
def patient(cluster, tmp_path_factory) -> Iterator[dict[str, Run]]:
    """Runs in which Ray itself waits for half a minute before it gives up; begun first, and looked at last."""
    folder = tmp_path_factory.mktemp("patient")
    (folder / "sitecustomize.py").write_text(SLOW)
    with (
        Run(folder / "token", cluster.address, RAY_AUTH_TOKEN=WRONG) as token,
        Run(folder / "slow", "local", PYTHONPATH=str(folder), RAY_raylet_start_wait_time_s="30") as slow,
    ):
        yield {"token": token, "slow": slow}


def refusal(directory: Path, address: str, *options: object, **environment: str) -> str:
    """What is said about it, which is one line."""
    done = subprocess.run(
        command(directory, address, *options),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def last_line(run: Run) -> str:
    assert run.end() == 2, run.text()
    assert "Traceback" not in run.text()
    return run.text().splitlines()[-1]


def test_a_node_with_another_release_is_refused_by_name(cluster, tmp_path):
    """Whether it joins while workers wait for a place, or is there from the beginning."""
    (tmp_path / "sitecustomize.py").write_text(OLDER)
    sentence = r"Error: Node .* has Genepool 0\.0\.1, but this machine has .*; install the same everywhere\."
    with Run(tmp_path / "e", cluster.address, "--workers", 4) as run:
        run.wait_until(lambda: len(doing(cluster, "_run_worker")) == 3)
        node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
        try:
            assert re.fullmatch(sentence, last_line(run))
            assert re.fullmatch(sentence, refusal(tmp_path / "e", cluster.address))
        finally:
            kill_hard(cluster, node)


def test_a_directory_that_a_node_does_not_see_and_other_images_are_refused(cluster, tmp_path):
    """A node of the same machine, with other file systems over two folders, as a machine without the mounts has."""
    hidden, photos, others = (tmp_path / name for name in ("hidden", "photos", "others"))
    hidden.mkdir()
    photographs(photos, seed=1)
    photographs(others, seed=2)
    sentence = r"Error: Node .* does not see '.*hidden/e'; put .*, or add --serve-population\."
    with Elsewhere(cluster, tmp_path, f"mount -t tmpfs none '{hidden}' && mount --bind '{others}' '{photos}'"):
        assert re.fullmatch(sentence, refusal(hidden / "e", cluster.address))
        assert not list((hidden / "e/logs").iterdir())
        words = refusal(tmp_path / "e", cluster.address, "--data", photos)
        assert re.fullmatch(r"Error: The images on node .* differ from those here; put the same files .*", words)


def photographs(folder: Path, *, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in ("light", "dark"):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 128, (12, 12, 3), dtype=np.uint8) + (128 if name == "light" else 0)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")


class Elsewhere:
    """A node with a view of the file systems of its own, which a command changes first."""

    def __init__(self, cluster, folder: Path, change: str) -> None:
        self._cluster, self._said = cluster, folder / "said"
        start = f"exec {Path(sys.executable).parent / 'ray'} start --address={cluster.address} --num-cpus=1 --block"
        self._command = ["unshare", "-m", "sh", "-c", f"{change} && {start}"]

    def __enter__(self) -> None:
        before = self._alive()
        with self._said.open("wb") as said:
            self._node = subprocess.Popen(self._command, stdout=said, stderr=said)
        deadline = time.monotonic() + PATIENCE
        while self._alive() == before:
            if self._node.poll() is not None:
                pytest.skip(f"no file systems of one's own here: {self._said.read_text().strip()[-200:]}")
            assert time.monotonic() < deadline, self._said.read_text()
            time.sleep(0.2)

    def __exit__(self, *error: object) -> None:
        count = self._alive()
        kill_in_its_namespace(self._node.pid)
        self._node.wait(PATIENCE)
        wait_until(lambda: self._alive() < count, PATIENCE)

    def _alive(self) -> int:
        return sum(node["Alive"] for node in self._cluster.global_state.node_table())


@pytest.mark.parametrize(
    ("address", "environment", "words"),
    [
        ("127.0.0.1:1", {}, "No Ray cluster answers at 127.0.0.1:1"),
        ("auto", {"RAY_ADDRESS": "127.0.0.1:1"}, "No Ray cluster answers at 127.0.0.1:1"),
        ("nonsense", {}, "'nonsense' is not the address of a Ray cluster"),
    ],
)
def test_an_unreachable_address_is_one_sentence(address, environment, words, tmp_path):
    assert words in refusal(tmp_path / "e", address, **environment)


def test_a_wrong_token_is_one_sentence_that_does_not_repeat_it(patient):
    run = patient["token"]
    assert "or wants another token" in last_line(run)
    places = [path for path in (*run.directory.rglob("*"), run.said) if path.is_file()]
    assert [path for path in places if WRONG.encode() in path.read_bytes()] == []


def test_ray_that_is_too_slow_to_start_is_one_sentence(patient):
    """Something on this machine makes one of Ray's own processes take longer than Ray waits for it."""
    assert last_line(patient["slow"]).startswith("Error: Ray did not start in time: the machine is too busy, or ")
    assert len(patient["slow"].text().splitlines()) == 1
