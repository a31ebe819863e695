"""What every pool of workers does, the values that describe it, and the rules for workers' number and memory."""

import logging
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import msgspec

from genepool import __version__
from genepool.dna import PROCESS_MEMORY
from genepool.errors import SettingsError
from genepool.registry import named_by_environment

log = logging.getLogger(__name__)

STOPPED = 75  # the exit code of a process that was stopped and has handed over its trainings: start it again
PATIENCE = 60.0  # seconds that workers have to hand over their trainings when the pool stops
RESERVE = 512 * 2**20  # bytes of memory left to everything else: the launcher, the system, cached files


class RayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The Ray cluster to join, and what each worker reserves there."""

    address: str | None = None  # None: the cluster that RAY_ADDRESS names, or a new one on this machine
    cpus: float = 1.0
    gpus: float = 0.0
    serve: bool = False  # serve the population from this machine to nodes that do not see its directory

    def resources(self) -> dict[str, float]:
        """The resources of one worker under Ray's names."""
        return {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}


class PoolShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one of several pools that run side by side may use; the default is everything."""

    pools: int = 1  # pools that divide the cores, or the places of a Ray cluster
    most: int | None = None  # the most workers; None: no limit
    memory: int | None = None  # bytes for all its workers together; None: what is free when the pool is made
    series: int = 0  # selects the numbers of its workers: other pools of the same experiment need other ones


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The workers to start for one run."""

    directory: Path
    count: int | None = None  # None: `per_gpu` workers per GPU, or one per core; on Ray, as many as fit
    # The number follows from the population's size: if memory is short, fewer workers are started.
    is_derived: bool = False
    per_gpu: int = 1
    device: str = "auto"
    data_dir: Path | None = None
    memory: int | None = None  # bytes per worker; None: an equal share of the free memory
    plugins: tuple[str, ...] = ()
    share: PoolShare = PoolShare()


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker receives from the process that starts it."""

    directory: str
    number: int  # selects the random numbers and the GPU
    device: str = "auto"
    data_dir: str | None = None
    memory: int | None = None  # the most bytes that it may use
    threads: int = 1
    # Workers that share this machine's cores; in the final phase most of them leave theirs to one worker.
    pool_size: int = 1
    address: str | None = None  # where other machines reach this one; None: workers of one machine only share trainings
    per_gpu: int | None = None  # workers that share one GPU; None: the pool's workers are spread evenly over the GPUs
    parent: int | None = None  # the worker stops when this process is gone
    plugins: tuple[str, ...] = ()  # modules and files to load first
    release: str = __version__  # the version of Genepool that started the run
    images: str = ""  # the digest that the images must have; empty: not checked

    def words(self) -> list[str]:
        """The arguments of `genepool` that start this worker, without its number."""
        given: dict[str, object] = {
            "--parent": self.parent,
            "--pool-size": self.pool_size if self.pool_size > 1 else None,
            "--per-gpu": self.per_gpu,
            "--device": self.device if self.device != "auto" else None,
            "--data-dir": self.data_dir,
            "--memory": self.memory,
            "--threads": self.threads if self.threads > 1 else None,
        }
        words = [str(word) for pair in given.items() if pair[1] is not None for word in pair]
        return ["worker", self.directory, *words, *(word for name in self.plugins for word in ("--plugin", name))]


class WorkerFunctions(msgspec.Struct, frozen=True, kw_only=True):
    """What runs on the nodes of a cluster: functions that every node can import."""

    run: Callable[..., Any]  # runs one worker and returns how it ended
    digest: Callable[[WorkerOptions], str]  # prepares the images on the node it runs on and returns their digest
    images: Callable[[WorkerOptions], Any]  # the prepared images in a form that can be sent to nodes
    # Opens the accounts of what the experiment in a directory has spent.
    accounts: Callable[[str], Callable[[Any], Any]]
    # The number of workers in the settings in force; None: as many as fit. Called here, not on the nodes.
    wanted: Callable[[], int | None]


def on_ray(options: PoolOptions, ray: RayOptions) -> WorkerOptions:
    """The options that all workers of a pool on Ray have in common; nodes have their own folders and environment."""
    plugins = [*named_by_environment(), *options.plugins]
    return WorkerOptions(
        directory=str(options.directory.resolve()), number=0, device=options.device, memory=options.memory,
        data_dir=str(options.data_dir.resolve()) if options.data_dir else None,
        threads=max(1, math.floor(ray.cpus)), per_gpu=math.floor(1 / ray.gpus) or 1 if ray.gpus else None,
        plugins=tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in plugins),
    )  # fmt: skip


class WorkerPool(ABC):
    """The workers of one run. `work` starts them. Leaving the context because of an exception, including Ctrl-C, stops
    them. Inside the context SIGTERM has the effect of Ctrl-C, so that no process manager loses trainings.
    """

    count = 0  # the number of workers that it keeps running
    _stop_requested = False
    _handler: Any = None

    @property
    @abstractmethod
    def restarts(self) -> int:
        """How often a worker was started again."""

    @abstractmethod
    def running(self) -> int:
        """The number of workers at work."""

    @abstractmethod
    def start(self) -> None:
        """Start the workers."""

    @abstractmethod
    def tend(self) -> bool:
        """Restart workers that died; return whether any worker is left."""

    @abstractmethod
    def _request_stop(self, patience: float) -> None:
        """Ask all workers to stop, and wait at most `patience` seconds for them."""

    @abstractmethod
    def end(self) -> None:
        """Kill all workers. Finished individuals are not lost."""

    def work(self, look: Callable[[], None], every: float = 0.5) -> None:
        """Start the workers and wait until all are done, calling `look` every so many seconds."""
        self.start()
        while self.tend():
            if self._stop_requested:
                raise KeyboardInterrupt
            look()
            time.sleep(every)

    def stop(self, patience: float = PATIENCE) -> None:
        """Let the workers hand over their trainings, then kill those that are left; Ctrl-C kills them at once."""
        try:
            self._request_stop(patience)
        finally:
            self.end()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there can handlers be set
            self._handler = signal.signal(signal.SIGTERM, self._on_sigterm)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self.stop()
        finally:
            if self._handler is not None:
                signal.signal(signal.SIGTERM, self._handler)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        # Only a flag: an exception here could interrupt the start or the end of a worker halfway.
        self._stop_requested = True


def that_fit(workers: int, asked: int | None, within: int | None = None) -> int:
    """As many of these workers as fit into the free memory, or `within` bytes; at least one. A warning says so."""
    from genepool.data import available_memory

    free = available_memory() if within is None else within + RESERVE
    needed = PROCESS_MEMORY if asked is None else require_memory(asked)
    most = workers if free is None else max(1, share(free, 1) // needed)
    if most < workers:
        why = f"{workers} workers of at least {_gib(needed)} do not fit into the {_gib(free or 0)} of free memory"
        log.warning("%s; %d are started.", why, most)
    return min(workers, most)


def memory_per_worker(asked: int | None, workers: int, within: int | None = None) -> int | None:
    """The bytes that each of several workers here may use: `asked`, or an equal share of what is free or `within`."""
    from genepool.data import available_memory

    return allowance(asked, available_memory() if within is None else within + RESERVE, workers)


def memory_per_pool(pools: int) -> int | None:
    """The bytes for each of several pools on this machine; None if the free memory is unknown."""
    from genepool.data import available_memory

    free = available_memory()
    return None if free is None else share(free, pools)


def require_memory(asked: int) -> int:
    """Return `asked`, or raise SettingsError if it is less than a process without a network takes."""
    if asked < PROCESS_MEMORY:
        raise SettingsError(f"A worker alone takes {_gib(PROCESS_MEMORY)}; {_gib(asked)} is too little to train.")
    return asked


def allowance(asked: int | None, free: int | None, workers: int) -> int | None:
    """The bytes that each of several workers may use, so that all of them together fit into what is free. Raise
    SettingsError if they do not fit. None if nothing was asked for and the free memory is unknown.
    """
    needed = PROCESS_MEMORY if asked is None else require_memory(asked)
    if free is None:
        return asked
    part = share(free, workers)
    if needed > part:
        most = share(free, 1) // needed
        advice = f"use at most {most} workers, or give each less with --memory" if most else "free some memory"
        raise SettingsError(
            f"{workers} workers of at least {_gib(needed)} do not fit into the {_gib(free)} of free memory, "
            f"of which {_gib(RESERVE)} stays with the system; {advice}."
        )
    return part if asked is None else asked


def share(free: int, workers: int) -> int:
    """The bytes of free memory per worker."""
    return max(0, free - RESERVE) // workers


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
