"""One worker's life in one process: it opens the experiment, gets its images ready, and evolves until it must stop.

The same for every engine. What an engine adds is where the process runs and, where there is no shared directory, files
and images that come from elsewhere.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool import __version__, registry
from genepool.analysis import Interval
from genepool.errors import EngineError
from genepool.evolution import Spending, Surroundings
from genepool.experiment import Accounts, Experiment, StopCondition
from genepool.population import Files

if TYPE_CHECKING:
    from genepool.data.dataset import Dataset

TOGETHER = 4
"""Threads at most for one training: batches of 50 have not enough in them for many. Measured with two."""

OWN_LOOK, ASKED_LOOK = 0.0, 2.0
"""Seconds between two looks at what was spent: one's own is cheap or waits by itself, one asked for is a journey."""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is sent to do."""

    directory: str
    number: int
    """Which random numbers to use, and which GPU."""
    device: str = "auto"
    data_dir: str | None = None
    memory: int | None = None
    """Bytes that it may take."""
    threads: int = 1
    pool_size: int = 1
    """Workers that were started together on this machine's cores; in the final phase most leave theirs to one."""
    together: int | None = None
    """Workers that share a GPU, where somebody has decided it."""
    parent: int | None = None
    """The process without which it stops."""
    plugins: tuple[str, ...] = ()
    """Modules and files to load first, named by whoever sent it."""
    release: str = __version__
    """Of the Genepool that sent it."""
    images: str = ""
    """The digest of the images that it must meet, where somebody has looked."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker ended."""

    reason: str
    told: bool
    """Somebody wanted it to; the budget may not be spent yet."""


def run_worker(
    options: WorkerOptions,
    *,
    files: Files | None = None,
    data: Dataset | None = None,
    spent: Callable[[Interval], Spending] | None = None,
) -> Ended:
    """Works until the budget is spent, or until it is told to stop (SIGTERM, SIGINT)."""
    if options.release != __version__:
        raise EngineError(
            f"Node {platform.node()} has Genepool {__version__}, but the run was started by {options.release}; "
            "install the same everywhere."
        )
    registry.load(options.plugins)
    experiment = Experiment.open(Path(options.directory), files)
    watch = StopCondition(experiment, options.parent, spent=spent, every=ASKED_LOOK if spent else OWN_LOOK)
    watch.obey_signals()

    from genepool.nn import choose_device, prepare_process

    prepare_process(options.threads)
    on_cores = choose_device(options.device, options.number).type == "cpu"
    data = data or _right_images(experiment, options)
    evaluators = experiment.evaluators(data, options.device, options.number, options.memory, options.together)
    surroundings = Surroundings(
        reason_to_stop=watch,
        budget_use=watch.budget_use,
        final_phase_threads=final_phase_threads(options) if on_cores else 1,
    )
    worker = experiment.worker(options.number, evaluators, surroundings, experiment.child_limits(data), watch.spent)
    try:
        reason = worker.run()
    finally:
        worker.population.close()
    return Ended(reason=reason, told=watch.told)


def final_phase_threads(options: WorkerOptions) -> int:
    """Return the threads for the final phase: one worker in each group has those of all, the others have none."""
    if options.pool_size == 1:
        return 1
    few = min(TOGETHER, options.pool_size - options.number, os.cpu_count() or 1)
    return 0 if options.number % TOGETHER else max(1, few)


def images(experiment: Experiment, options: WorkerOptions) -> Dataset:
    """What workers train on, prepared once a machine and mapped by all its workers."""
    from genepool.data.dataset import prepare

    return prepare(experiment.source(Path(options.data_dir) if options.data_dir else None))


def _right_images(experiment: Experiment, options: WorkerOptions) -> Dataset:
    from genepool.data.dataset import digest

    found = images(experiment, options)
    if options.images and digest(found) != options.images:
        raise EngineError(
            f"The images on node {platform.node()} are not those of the run; put the same files on all nodes."
        )
    return found


def images_of(options: WorkerOptions) -> str:
    """Prepares the images of the machine it runs on and tells what they are: equal texts, equal images."""
    from genepool.data.dataset import digest

    return digest(images(Experiment.open(Path(options.directory)), options))


def accounts_of(directory: str) -> Callable[[Interval], Spending]:
    """The ledger of an experiment, for somebody who keeps it for others."""
    return Accounts(Experiment.open(Path(directory)), every=0.5)
