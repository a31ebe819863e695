"""What every pool of workers does, and the rules for the number of workers and for their memory."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from genepool.dna import PROCESS_MEMORY
from genepool.errors import SettingsError

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds that workers have to hand over their trainings when the pool stops."""
RESERVE = 512 * 2**20
"""Bytes of memory left to everything else: the launcher, the system, cached files."""


class WorkerPool(ABC):
    """The workers of one run.

    `work` starts them. Leaving the context because of an exception, including Ctrl-C, stops them. Inside the context
    SIGTERM has the effect of Ctrl-C, so that no process manager loses trainings.
    """

    count = 0
    """The number of workers that it keeps running."""
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


def number_of_workers(count: int | None, per_gpu: int, device: str) -> int:
    """Return `count` if given, otherwise `per_gpu` workers per GPU, or one per core if there is no GPU."""
    if count or device == "cpu":
        return count or os.cpu_count() or 1

    from genepool.nn import gpus

    return gpus(device) * per_gpu or os.cpu_count() or 1


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
    """The bytes that each of several workers on this machine may use: `asked`, or an equal share of what is free.

    All of them together get at most `within` bytes, if that is given.
    """
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
    """The bytes that each of several workers may use, so that all of them together fit into what is free.

    Raise SettingsError if they do not fit. None if nothing was asked for and the free memory is unknown.
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
