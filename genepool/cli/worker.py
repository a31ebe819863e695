"""`genepool worker`: one worker, from any machine that sees the directory."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, MEMORY, PLUGIN, THREADS, memory_of_each


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@MEMORY
@PLUGIN
@click.option("--number", type=click.IntRange(0), help="Chooses its random numbers, and its GPU.  [default: random]")
@THREADS
@click.option("--pool-size", default=1, hidden=True, help="Workers that were started together.")
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option("--exit-when-told", default=0, hidden=True, help="The exit code of a worker that was told to stop.")
def worker(
    directory: Path,
    data_dir: Path | None,
    device: str,
    memory: str | None,
    number: int | None,
    threads: int,
    pool_size: int,
    parent: int | None,
    exit_when_told: int,
) -> None:
    """Works on the experiment in DIR until its budget is spent, or until it is told to stop (Ctrl-C, SIGTERM).

    Without --memory it may take what is free divided by the number of cores, since as many workers may be started.
    """
    from genepool.experiment import Experiment
    from genepool.experiment.worker_process import WorkerOptions, run_worker

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    most = memory_of_each(memory, os.cpu_count() or 1, trust=memory is not None)
    if number is None:
        import secrets

        number = secrets.randbits(31)
    options = WorkerOptions(
        directory=str(directory),
        number=number,
        device=device,
        data_dir=str(data_dir) if data_dir else None,
        memory=most,
        threads=threads,
        pool_size=pool_size,
        parent=parent,
    )
    with download_progress() as progress:
        Experiment.open(directory).source(data_dir, progress)
    ended = run_worker(options)
    click.echo(f"The worker stops: {ended.reason}.", err=True)
    if ended.told:
        sys.exit(exit_when_told)
