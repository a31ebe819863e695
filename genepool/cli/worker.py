"""`genepool worker`: one worker, from any machine that sees the directory."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, MEMORY, PLUGIN, memory_of_each


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@MEMORY
@PLUGIN
@click.option("--number", type=click.IntRange(0), help="Which random numbers to use.  [default: its own]")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
def worker(
    directory: Path,
    data_dir: Path | None,
    device: str,
    memory: str | None,
    number: int | None,
    threads: int,
    parent: int | None,
) -> None:
    """Works on the experiment in DIR until its budget is spent, or until it is told to stop (Ctrl-C, SIGTERM).

    Its share of the memory is what is free divided by the machine's cores: as many workers may come.
    """
    from genepool.experiment import Experiment, Watch

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    experiment = Experiment.open(directory)
    most = memory_of_each(memory, os.cpu_count() or 1, trust=memory is not None)
    watch = Watch(experiment, parent)
    watch.obey_signals()

    from genepool.nn.data import prepare
    from genepool.nn.runtime import prepare_process

    prepare_process(threads)
    with download_progress() as progress:
        data = prepare(experiment.source(data_dir, progress))
    if number is None:
        import secrets

        number = secrets.randbits(31)
    evaluators = experiment.evaluators(data, device, number, most)
    pricing, sizing = experiment.pricing(data), experiment.sizing(data)
    at_work = experiment.worker(number, evaluators, watch, watch.phase, pricing, sizing, watch.spent, data.image)
    try:
        reason = at_work.run()
    finally:
        at_work.population.close()
    click.echo(f"The worker stops: {reason}.", err=True)
