"""Genepool's commands as processes of their own, and what can be seen of them from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from genepool.analysis import Row
from genepool.experiment import Experiment
from genepool.population import Individual, State
from genepool.settings import override, preset
from tests.support import in_process

COMMAND = [sys.executable, "-m", "genepool"]
PATIENCE = 300.0
"""Seconds; on a machine that is busy with other things everything takes its time."""


def genepool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command that is waited for."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@contextlib.contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that runs on, in a group of its own; whatever it has started is gone afterwards."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for one in (process.pid, *workers_of(Path(str(arguments[1])))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.communicate()


def workers_of(directory: Path) -> list[int]:
    """The processes that work on an experiment, by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if entry.name.isdigit() and b"worker" in words and str(directory).encode() in words:
                found.append(int(entry.name))
    return found


def experiment(directory: Path, *settings: str) -> Experiment:
    """A small one that goes on until it is stopped."""
    return Experiment.create(
        directory, override(preset("laptop"), ["budget.time=none", "population.size=4", *settings])
    )


def finished(directory: Path) -> dict[str, Row]:
    """Whoever has become alive so far."""
    if not (directory / "workers").exists():
        return {}
    return {row.id: row for row in Experiment.open(directory).history().finished()}


def training(directory: Path) -> list[Individual]:
    """Whoever is in training."""
    return [one for one in Experiment.open(directory).view().snapshot() if one.state is State.TRAINING]


def steps_done(directory: Path, who: str) -> int:
    """How far a worker's training is, by its last beat."""
    words = (directory / "workers" / who / "heartbeat").read_text().split()
    return int(words[2]) if words[1:2] == ["train"] else 0


def wait_until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Looks often; gives up with an error."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def assert_sound(directory: Path) -> None:
    """Every invariant holds, as a user would find out."""
    result = in_process.genepool("check", directory)
    assert result.returncode == 0, result.stdout + result.stderr
