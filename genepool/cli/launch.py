"""`genepool worker` and `launch`: workers on any machine, started by hand or by a scheduler."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, FILE, MEMORY, PLUGIN, THREADS, split

if TYPE_CHECKING:
    from genepool.workers import LaunchRequest


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that describe the job."""

    directory: Path
    tasks: int | None
    workers: int | None
    cpus_per_worker: int
    gpus_per_worker: float
    memory: str | None
    time_limit: str | None
    image: str
    claim: str
    hosts: str
    data_dir: Path | None
    device: str


@click.command()
@click.argument("scheduler", type=click.Choice(["slurm", "k8s", "ssh"]))
@DIRECTORY
@click.option("--workers", type=click.IntRange(1), help="Workers, of a study: per task.  [default: the settings']")
@click.option("--tasks", type=click.IntRange(1), help="Study: jobs that run it together.  [default: its experiments]")
@click.option("--cpus-per-worker", default=1, show_default=True, type=click.IntRange(1))
@click.option("--gpus-per-worker", default=0.0, show_default=True, type=click.FloatRange(0))
@click.option("--memory", metavar="SIZE", help="The most each worker may use, like 2G.")
@click.option("--time-limit", help="Slurm: end and requeue each worker after this time, like 24h.")
@click.option("--image", default="", help="Kubernetes: a container image that contains Genepool.")
@click.option("--claim", default="", help="Kubernetes: the volume claim to mount where DIR is.")
@click.option("--hosts", default="", help="ssh: host names, separated by commas.")
@DATA_DIR
@DEVICE
@click.option("--submit", is_flag=True, help="Submit the job with sbatch, kubectl or ssh.")
@click.option("--out", type=FILE, help="Write the job to a file instead of the screen.")
def launch(scheduler: str, submit: bool, out: Path | None, **given: Any) -> None:
    """Write a job that works on the experiment or study in DIR; --submit also submits it.

    `genepool run DIR` or `genepool study PLAN --out DIR`, stopped at once, creates DIR. All machines must see it, and
    this installation of Genepool, under the same paths (on Kubernetes, Genepool is in the image).
    """
    from genepool.workers import launch as jobs

    options, _ = split(LaunchOptions, given)
    text = jobs.write_job(scheduler, _request(options), out)
    if submit:
        click.echo(jobs.submit(scheduler, text))
    elif out is None:
        click.echo(text, nl=False)


def _request(options: LaunchOptions) -> LaunchRequest:
    from genepool import settings as names
    from genepool.study import PLAN
    from genepool.workers import LaunchRequest

    directory, of_study = options.directory.resolve(), (options.directory / PLAN).exists()
    memory = names.size(options.memory) if options.memory else None
    own: dict[str, Any] = {"memory": memory, "data_dir": options.data_dir, "device": options.device}
    words, tasks, workers, memory = (_study if of_study else _workers)(directory, options, own)
    return LaunchRequest(
        directory=str(directory), words=tuple(words), numbered=not of_study, tasks=tasks, memory=memory,
        cpus=workers * options.cpus_per_worker, gpus=workers * options.gpus_per_worker,
        seconds=int(names.seconds(options.time_limit)) if options.time_limit else None,
        hosts=tuple(filter(None, options.hosts.split(","))), image=options.image, claim=options.claim,
    )  # fmt: skip


def _workers(directory: Path, options: LaunchOptions, own: dict[str, Any]) -> tuple[list[str], int, int, int | None]:
    """The arguments of a worker, the number of tasks, and the workers and the memory of a task."""
    from genepool.experiment import Experiment
    from genepool.study import wanted_workers
    from genepool.workers import WorkerOptions

    own["data_dir"] = str(own["data_dir"].resolve()) if own["data_dir"] else None
    words = WorkerOptions(directory=str(directory), number=0, threads=options.cpus_per_worker, **own).words()
    return words, options.workers or wanted_workers(Experiment.open(directory).settings()) or 1, 1, own["memory"]


def _study(directory: Path, options: LaunchOptions, own: dict[str, Any]) -> tuple[list[str], int, int, int | None]:
    """The same for a driver of a study."""
    from genepool.study import StudyRun, read_study, wanted_workers

    plan, _ = read_study(directory)
    workers = options.workers or max(wanted_workers(plan.settings_of(arm, 1)) or 1 for arm in plan.arms)
    run = StudyRun(workers=workers, **own)
    return run.words(directory), options.tasks or len(plan.runs()), workers, run.memory_of_all()


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@MEMORY
@PLUGIN
@click.option("--number", type=click.IntRange(0), help="Selects random numbers and the GPU.  [default: random]")
@THREADS
@click.option("--pool-size", default=1, hidden=True, help="Workers started together on this machine.")
@click.option("--per-gpu", type=int, hidden=True, help="Workers that share one GPU.")
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option("--exit-code-on-stop", default=0, hidden=True, help="Exit code after Ctrl-C or SIGTERM.")
def worker(directory: Path, data_dir: Path | None, memory: str | None, exit_code_on_stop: int, **given: Any) -> None:
    """Work on the experiment in DIR until its budget is spent, or until Ctrl-C or SIGTERM.

    Without --memory the worker may use the free memory divided by the number of cores, as if one worker per core were
    started.
    """
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
    sys.exit(exit_code_on_stop if ended.stop_requested else 0)
