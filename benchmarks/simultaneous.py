"""Measures several processes at the same time: all are started and ready before the clock starts."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple, Protocol


class Lap(NamedTuple):
    """What one process did."""

    count: int
    seconds: float
    cpu: float
    """Seconds of processor time."""


class Measured(NamedTuple):
    """What all processes did together."""

    rate: float
    """In a second."""
    cpu: float
    """Seconds of processor time for one."""


Work = Callable[[float], list[Lap]]
"""Works for the given seconds; returns one lap per kind of work."""


class Job(Protocol):
    """The work of one process; it is sent there, so it must be picklable."""

    def prepare(self) -> Work:
        """Do everything that is not measured, and return the function that is."""
        ...


def timed(work: Callable[[], int]) -> Lap:
    """Time one lap."""
    start, cpu = time.perf_counter(), time.process_time()
    count = work()
    return Lap(count, time.perf_counter() - start, time.process_time() - cpu)


def total(laps: Sequence[Lap]) -> Lap:
    """Combine several laps of the same work."""
    return Lap(*(sum(figures) for figures in zip(*laps, strict=True)))


def measure(jobs: Sequence[Job], seconds: float) -> list[Measured]:
    """Run one process per job; the jobs are alike."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(sorted({type(job).__module__ for job in jobs}))
    pipes = [context.Pipe() for _ in jobs]
    pool = [context.Process(target=_run, args=(job, pipe[1])) for job, pipe in zip(jobs, pipes, strict=True)]
    for process, (_, theirs) in zip(pool, pipes, strict=True):
        process.start()
        theirs.close()
    mine = [pipe[0] for pipe in pipes]
    try:
        reports = _started_together(mine, seconds)
    except EOFError:
        raise SystemExit("A process of the benchmark failed; its message is above.") from None
    finally:
        for process, pipe in zip(pool, mine, strict=True):
            pipe.close()
            process.join()
    return [_together(laps) for laps in zip(*reports, strict=True)]


def _started_together(pipes: list[Connection], seconds: float) -> list[list[Lap]]:
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send(seconds)
    return [pipe.recv() for pipe in pipes]


def _together(laps: Sequence[Lap]) -> Measured:
    rate = sum(lap.count / lap.seconds for lap in laps)
    return Measured(rate=rate, cpu=total(laps).cpu / max(total(laps).count, 1))


def _run(job: Job, pipe: Connection) -> None:
    work = job.prepare()
    pipe.send("ready")
    try:
        seconds = pipe.recv()
    except EOFError:  # another process failed; nothing is to be measured
        return
    pipe.send(work(seconds))
