"""`genepool worker`: one worker, on any machine that sees the directory."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, MEMORY, PLUGIN, THREADS


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@MEMORY
@PLUGIN
@click.option("--number", type=click.IntRange(0), help="Selects its random numbers and its GPU.  [default: random]")
@THREADS
@click.option("--pool-size", default=1, hidden=True, help="Workers started together on this machine.")
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option("--exit-code-on-stop", default=0, hidden=True, help="Exit code after Ctrl-C or SIGTERM.")
def worker(directory: Path, data_dir: Path | None, memory: str | None, exit_code_on_stop: int, **given: Any) -> None:
    """Work on the experiment in DIR until its budget is spent, or until Ctrl-C or SIGTERM.

    Without --memory the worker may use the free memory divided by the number of cores, as if one worker per core were
    started.
    """
    import secrets

    from genepool.experiment import Experiment, run_worker
    from genepool.settings import size
    from genepool.workers import WorkerOptions, memory_per_worker, require_memory

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if given["number"] is None:
        given["number"] = secrets.randbits(31)
    # A given amount is not compared with what is free: a restarted worker would count the others twice.
    most = require_memory(size(memory)) if memory else memory_per_worker(None, os.cpu_count() or 1)
    options = WorkerOptions(
        directory=str(directory), data_dir=str(data_dir) if data_dir else None, memory=most, **given
    )
    with download_progress() as progress:
        Experiment.open(directory).source(data_dir, progress)
    ended = run_worker(options)
    click.echo(f"The worker stops: {ended.reason}.", err=True)
    if ended.stop_requested:
        sys.exit(exit_code_on_stop)
