"""The values that describe a pool of workers, one of its workers, and the resources of a worker on Ray."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from genepool import __version__
from genepool.registry import named_by_environment

STOPPED = 75
"""The exit code of a process that was stopped and has handed over its trainings: start it again."""


class RayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The Ray cluster to join, and what each worker reserves there."""

    address: str | None = None
    """None: the cluster that RAY_ADDRESS names, or a new one on this machine."""
    cpus: float = 1.0
    gpus: float = 0.0
    serve: bool = False
    """Serve the population from this machine to nodes that do not see its directory."""

    def resources(self) -> dict[str, float]:
        """The resources of one worker under Ray's names."""
        return {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}


class PoolShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one of several pools that run side by side may use; the default is everything."""

    pools: int = 1
    """Pools that divide the cores, or the places of a Ray cluster."""
    most: int | None = None
    """The most workers; None: no limit."""
    memory: int | None = None
    """Bytes for all its workers together; None: what is free when the pool is made."""
    series: int = 0
    """Selects the numbers of its workers: other pools of the same experiment need other ones."""


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The workers to start for one run."""

    directory: Path
    count: int | None = None
    """None: `per_gpu` workers per GPU, or one per core; on Ray, as many as fit."""
    is_derived: bool = False
    """The number follows from the population's size: if memory is short, fewer workers are started."""
    per_gpu: int = 1
    device: str = "auto"
    data_dir: Path | None = None
    memory: int | None = None
    """Bytes per worker; None: an equal share of the free memory."""
    plugins: tuple[str, ...] = ()
    share: PoolShare = PoolShare()


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker receives from the process that starts it."""

    directory: str
    number: int
    """Selects the random numbers and the GPU."""
    device: str = "auto"
    data_dir: str | None = None
    memory: int | None = None
    """The most bytes that it may use."""
    threads: int = 1
    pool_size: int = 1
    """Workers that share this machine's cores; in the final phase most of them leave theirs to one worker."""
    per_gpu: int | None = None
    """Workers that share one GPU; None: the pool's workers are spread evenly over the GPUs."""
    parent: int | None = None
    """The worker stops when this process is gone."""
    plugins: tuple[str, ...] = ()
    """Modules and files to load first."""
    release: str = __version__
    """The version of Genepool that started the run."""
    images: str = ""
    """The digest that the images must have; empty: not checked."""

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

    run: Callable[..., Any]
    """Runs one worker and returns how it ended."""
    digest: Callable[[WorkerOptions], str]
    """Prepares the images on the node it runs on and returns their digest."""
    images: Callable[[WorkerOptions], Any]
    """The prepared images in a form that can be sent to nodes."""
    accounts: Callable[[str], Callable[[Any], Any]]
    """Opens the accounts of what the experiment in a directory has spent."""
    wanted: Callable[[], int | None]
    """The number of workers in the settings in force; None: as many as fit. Called here, not on the nodes."""


def on_ray(options: PoolOptions, ray: RayOptions) -> WorkerOptions:
    """The options that all workers of a pool on Ray have in common; nodes have their own folders and environment."""
    plugins = [*named_by_environment(), *options.plugins]
    return WorkerOptions(
        directory=str(options.directory.resolve()),
        number=0,
        device=options.device,
        data_dir=str(options.data_dir.resolve()) if options.data_dir else None,
        memory=options.memory,
        threads=max(1, math.floor(ray.cpus)),
        per_gpu=math.floor(1 / ray.gpus) or 1 if ray.gpus else None,
        plugins=tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in plugins),
    )
