"""What every engine offers to whoever started it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from genepool.errors import SettingsError

PATIENCE = 60.0
"""Seconds for workers to hand their trainings over when they are to stop."""


class WorkerPool(Protocol):
    """The workers of one run."""

    @property
    def restarts(self) -> int:
        """How often one had to be started again."""
        ...

    def running(self) -> int:
        """How many are at work."""
        ...

    def work(self, look: Callable[[], None], every: float = 0.5) -> None:
        """Waits until all are done, starting again those that died, and looks around now and then."""
        ...

    def stop(self, patience: float = PATIENCE) -> None:
        """Asks all to stop, which lets them hand over what they train, and waits; then ends those that are left."""
        ...

    def end(self) -> None:
        """Ends all at once. Nothing that was finished is lost by it."""
        ...


RESERVE = 512 * 2**20
"""Bytes that are left to everything else: the launcher, the system, files that are read again and again."""


def share(free: int, workers: int) -> int:
    """What each of so many workers may take."""
    return max(0, free - RESERVE) // workers


def allowance(asked: int | None, free: int | None, workers: int, needed: int) -> int | None:
    """Bytes that each of so many workers may take: what is asked for, or its share of what is free.

    Refuses where not even a worker without a network would fit, which needs so many bytes, and where all together would
    pass what is free. None where nothing was asked for and the system does not tell.
    """
    if asked is not None and asked < needed:
        raise SettingsError(f"A worker alone takes {_gib(needed)}; {_gib(asked)} are too little for one that trains.")
    if free is None:
        return asked
    part = share(free, workers)
    if max(asked or 0, needed) > part:
        most = share(free, 1) // max(asked or 0, needed)
        raise SettingsError(
            f"{workers} workers of at least {_gib(asked or needed)} do not fit into the {_gib(free)} of memory that "
            f"are free here, of which {_gib(RESERVE)} stay for the system; {_advice(most)}."
        )
    return part if asked is None else asked


def _advice(most: int) -> str:
    return f"use at most {most} workers, or give each less with --memory" if most else "free some memory"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
