"""One worker in one process: it opens the experiment, prepares its images, and evolves until it must stop."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from genepool import __version__, registry
from genepool import data as images  # which loads its parts when they are used
from genepool.errors import EngineError
from genepool.evolution import Sharing, Surroundings
from genepool.experiment.experiment import Experiment
from genepool.experiment.stopping import Accounts, SpentBy, StopCondition
from genepool.population import Files
from genepool.workers import WorkerFunctions, WorkerOptions

MOST_THREADS = 4  # at most, for one training: batches of 50 do not keep many busy; measured with two
OWN_LOOK, REMOTE_LOOK = 0.0, 2.0
"""Seconds between two looks at what was spent: reading the records is cheap, a call over the network is not."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    stop_requested: bool  # it was stopped from outside; the budget may not be spent yet


def run_worker(
    options: WorkerOptions,
    *,
    files: Files | None = None,
    data: images.Dataset | None = None,
    spent: SpentBy | None = None,
) -> Ended:
    """Work until the budget is spent, or until SIGTERM or SIGINT arrives."""
    if options.release != __version__:
        raise EngineError(
            f"Node {platform.node()} has Genepool {__version__}, but the run was started by {options.release}; "
            "install the same everywhere."
        )
    registry.load(options.plugins)
    experiment = Experiment.open(Path(options.directory), files)
    condition = StopCondition(experiment, options.parent, spent=spent, every=REMOTE_LOOK if spent else OWN_LOOK)
    condition.obey_signals()

    from genepool.nn import choose_device, gpus, prepare_process

    prepare_process(options.threads)
    on_cores = choose_device(options.device, options.number).type == "cpu"
    data = data or _right_images(experiment, options)
    # A worker that was started alone has its GPU to itself.
    per_gpu = options.per_gpu or -(-options.pool_size // max(1, gpus(options.device)))
    evaluators = experiment.evaluators(data, options.device, options.number, options.memory, per_gpu)
    threads = final_phase_threads(options) if on_cores else 1
    surroundings = Surroundings(
        reason_to_stop=condition,
        budget_use=condition.budget_use,
        final_phase_threads=threads,
        sharing=Sharing(number=options.number, address=options.address) if on_cores else None,
    )
    worker = experiment.worker(options.number, evaluators, surroundings, experiment.child_limits(data), condition.spent)
    try:
        reason = worker.run()
    finally:
        worker.population.close()
    return Ended(reason=reason, stop_requested=condition.stop_requested)


def final_phase_threads(options: WorkerOptions) -> int:
    """Threads in the final phase: the first of every few workers gets the threads of all of them, the others none."""
    if options.pool_size == 1:
        return 1
    place = options.number % options.pool_size  # numbers of a second pool do not begin at 0
    few = min(MOST_THREADS, options.pool_size - place, os.cpu_count() or 1)
    return 0 if place % MOST_THREADS else max(1, few)


def _images(experiment: Experiment, options: WorkerOptions) -> images.Dataset:
    """The images, prepared once per machine and memory-mapped by all its workers."""
    return experiment.prepared(experiment.source(Path(options.data_dir) if options.data_dir else None))


def _right_images(experiment: Experiment, options: WorkerOptions) -> images.Dataset:
    found = _images(experiment, options)
    if options.images and images.data_digest(found) != options.images:
        raise EngineError(
            f"The images on node {platform.node()} differ from those of the run; put the same files on all nodes."
        )
    return found


def functions_for(experiment: Experiment) -> WorkerFunctions:
    return WorkerFunctions(
        run=run_worker,
        digest=images_digest,
        images=portable_images,
        accounts=accounts_of,
        wanted=lambda: wanted_workers(experiment),
    )


def wanted_workers(experiment: Experiment) -> int | None:
    settings = experiment.settings()
    return settings.workers.number(settings.population.size)


def images_digest(options: WorkerOptions) -> str:
    """Prepare the images on the machine this runs on, and return their digest."""
    return images.data_digest(_images(Experiment.open(Path(options.directory)), options))


def portable_images(options: WorkerOptions) -> images.Dataset:
    """The prepared images in memory, to be sent to other machines."""
    return images.portable(_images(Experiment.open(Path(options.directory)), options))


def accounts_of(directory: str) -> SpentBy:
    """The accounts of an experiment, for a process that keeps them on behalf of others."""
    return Accounts(Experiment.open(Path(directory)), every=0.5)
