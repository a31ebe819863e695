"""Genepool's doors without a process of their own: importing torch anew takes longer than most of what tests ask.

A verb runs as in the program, but for the outermost line, which makes a sentence of a fault of ours: here it fails the
test. Tests of processes, signals, plugins and logs start real ones.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from genepool.cli import cli
from genepool.experiment import Experiment, run_worker
from genepool.settings import override, preset
from genepool.workers import WorkerOptions


class Said(NamedTuple):
    """How a verb ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str
    output: str
    """Both, as they come on a terminal."""


def genepool(*words: object, cwd: Path | None = None) -> Said:
    """A verb. Workers that it starts are processes, as always."""
    with contextlib.chdir(cwd or Path.cwd()), _own_signals():
        result = CliRunner().invoke(cli, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr, result.output)


def evolved(directory: Path, *settings: str) -> Experiment:
    """An experiment by the paper's rules, with children soon, on which one worker has spent the budget."""
    rules = ["budget.time=none", "population.durability=fast", "population.founders=two", *settings]
    experiment = Experiment.create(directory, override(preset("faithful"), rules))
    work_on(experiment)
    return experiment


def work_on(experiment: Experiment) -> None:
    """One worker, until the budget is spent."""
    with _own_signals():
        run_worker(WorkerOptions(directory=str(experiment.path), number=0, device="cpu"))


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Verbs and workers obey signals in their own way; the tests' process goes on as before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
