"""Workers as endless tasks of a Ray cluster: Ray places them, runs them again after a lost process or node, and spreads
them over the nodes; more workers than places wait until a node joins. Nothing that must last is ever kept in Ray.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from genepool.dna import PROCESS_MEMORY
from genepool.errors import EngineError, GenepoolError, PopulationFormatError, StorageError
from genepool.population import ServedFiles
from genepool.workers.pool import PATIENCE, RESERVE, allowance
from genepool.workers.ray.nodes import Ray, here, pinned, places
from genepool.workers.ray.service import Line, Roll

LIMIT_OF_LOST = 30.0
"""Seconds before a worker that the store refused is tried again."""

ROLL_EVERY = 3.0
"""Seconds between two looks at the roll when all have signed it: a call takes processor time that trainings lose, and
only whoever begins again elsewhere would sign once more."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker gets of a node."""

    cpus: float = 1.0
    gpus: float = 0.0

    def asked(self) -> dict[str, float]:
        """By Ray's names."""
        return {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What all workers of one run have in common."""

    work: Callable[..., Any]
    """Lives a worker's life for an errand and tells how it ended; importable on every node."""
    options: Callable[[int], Any]
    """Of the worker of a number."""
    share: Share
    wanted: Callable[[], int]
    """How many workers there should be now; 0: as many as there are places."""
    check: Callable[[], None] = lambda: None
    """Looks at all nodes, and refuses one that is not as it must be."""
    logs: Path | None = None
    """Where each writes its log; None: into Ray's own."""


class RayPool:
    """The workers of one `genepool run` on a Ray cluster. It obeys the number that is wanted while it runs."""

    def __init__(self, ray: Ray, job: Job, service: Any = None, data: Any = None) -> None:
        """With a service, workers reach the population through it; `data` are images in Ray's object store."""
        self._ray, self._job = ray, job
        self._service, self._data = service, data
        self._roll = ray.remote(Roll).options(num_cpus=0, max_restarts=-1, **pinned(here(ray))).remote()
        options = {"num_cpus": job.share.cpus, "num_gpus": job.share.gpus, "scheduling_strategy": "SPREAD"}
        self._start = ray.remote(_life).options(max_retries=-1, **options)
        self._serials = itertools.count()
        self._tasks: dict[Any, tuple[int, int]] = {}  # by reference: which start it was, and the worker's number
        self._leaving: set[Any] = set()
        self._resting: dict[int, float] = {}
        self._over = False
        self._seen: dict[int, tuple[int, str]] = {}
        self._next_roll = 0.0
        self._again = 0
        if job.logs is not None:
            job.logs.mkdir(exist_ok=True)
        self._adjust()

    # -- looking ------------------------------------------------------------------------------------------------------

    def running(self) -> int:
        """How many are at work: begun, on a node that is still there."""
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        seen = self._read_roll()
        return sum(serial in seen and seen[serial][1] in alive for serial, _ in self._tasks.values())

    @property
    def restarts(self) -> int:
        return self._again + sum(times - 1 for times, _ in self._seen.values())

    def _read_roll(self) -> dict[int, tuple[int, str]]:
        now = time.monotonic()
        if now < self._next_roll and all(serial in self._seen for serial, _ in self._tasks.values()):
            return self._seen
        self._next_roll = now + ROLL_EVERY
        with suppress(self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
            # Who was on a roll that was lost has begun all the same.
            self._seen = {**self._seen, **self._ray.get(self._roll.read.remote(), timeout=10)}
        return self._seen

    # -- working ------------------------------------------------------------------------------------------------------

    def work(self, look: Callable[[], None], every: float = 0.5) -> None:
        """Waits until all are done, and looks around now and then."""
        while self._tend():
            look()
            time.sleep(every)

    def _tend(self) -> bool:
        """Whether anybody is still at work, or waits for a place."""
        for task in self._finished():
            self._settle(task)
        if self._over:
            # The others find out for themselves; those that never began need not begin.
            begun = self._read_roll()
            self._dismiss([task for task, (serial, _) in self._tasks.items() if serial not in begun])
        else:
            self._adjust()
        return bool(self._tasks or self._resting)

    def _finished(self) -> list[Any]:
        if not self._tasks:
            return []
        done, _ = self._ray.wait([*self._tasks], num_returns=len(self._tasks), timeout=0)
        return list(done)

    def _settle(self, task: Any) -> None:
        """What became of a worker: it is done, it was dismissed, it must begin again, or it ends the run."""
        _, number = self._tasks.pop(task)
        expected = task in self._leaving
        self._leaving.discard(task)
        exceptions = self._ray.exceptions
        try:
            ended = self._ray.get(task)
        except exceptions.TaskCancelledError:
            return
        except exceptions.RayTaskError as error:
            self._meet(error.cause, number)
            return
        except exceptions.RayError:  # lost in a way that Ray has not mended by itself
            self._again += 1
            return
        if not ended.told:
            self._over = True
        elif not expected:  # its node wanted to be rid of it
            self._again += 1

    def _meet(self, cause: BaseException, number: int) -> None:
        """A bug stops the run with its message; a store that is out of order for a moment does not."""
        if isinstance(cause, StorageError):
            self._again += 1
            self._resting[number] = time.monotonic() + LIMIT_OF_LOST
            return
        if isinstance(cause, PopulationFormatError) or not isinstance(cause, GenepoolError):
            # A node that joined later may not see the directory, or have a release that does not know our words.
            self._job.check()
        if isinstance(cause, GenepoolError):
            raise GenepoolError(str(cause))
        words = f"{type(cause).__name__}: {cause}".strip().splitlines()[0]
        raise EngineError(f"Worker {number} failed with {words}; that is a bug, and its words are in the logs.")

    def _adjust(self) -> None:
        """As many workers as are wanted now: the highest numbers go first, and the lowest free ones come."""
        wanted = self._job.wanted() or max(1, places(self._ray, self._job.share.asked()))
        now = time.monotonic()
        self._resting = {number: until for number, until in self._resting.items() if until > now and number < wanted}
        self._dismiss([task for task, (_, number) in self._tasks.items() if number >= wanted])
        taken = {number for _, number in self._tasks.values()} | set(self._resting)
        for number in range(wanted):
            if number not in taken:
                serial = next(self._serials)
                self._tasks[self._begin(serial, number)] = (serial, number)

    def _begin(self, serial: int, number: int) -> Any:
        log = str(self._job.logs / f"worker-{number}.log") if self._job.logs else None
        options, asked = self._job.options(number), self._job.share.asked()
        return self._start.remote(self._job.work, options, asked, log, (serial, self._roll), self._service, self._data)

    # -- stopping -----------------------------------------------------------------------------------------------------

    def _dismiss(self, tasks: list[Any], *, force: bool = False) -> None:
        for task in tasks:
            if force or task not in self._leaving:
                self._leaving.add(task)
                self._ray.cancel(task, force=force, recursive=False)

    def stop(self, patience: float = PATIENCE) -> None:
        """Asks all to stop, which lets them hand over what they train, and waits; then ends those that are left."""
        self._dismiss([*self._tasks])
        if self._tasks:
            self._ray.wait([*self._tasks], num_returns=len(self._tasks), timeout=patience)
        self.end()

    def end(self) -> None:
        """Ends all at once. Nothing that was finished is lost by it."""
        left = [task for task in self._tasks if task not in self._finished()]
        self._dismiss(left, force=True)
        self._tasks = {}


def _life(
    work: Callable[..., Any],
    options: Any,
    asked: dict[str, float],
    log: str | None,
    entry: tuple[int, Any],
    service: Any,
    data: Any,
) -> Any:
    """One worker, on its node."""
    import ray

    serial, roll = entry
    node = here(ray)
    roll.arrived.remote(serial, node)
    logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True)
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    options = msgspec.structs.replace(options, memory=_memory(ray, node, asked, options.memory))
    if service is None:
        return work(options)
    line = Line(ray, service)
    return work(options, files=ServedFiles(line), data=data, spent=line.spent)


def _memory(ray: Ray, node: str, asked: dict[str, float], given: int | None) -> int | None:
    """What a worker may take: what Ray counts as this node's memory, shared out among all that fit there."""
    facts = next(found for found in ray.nodes() if found["NodeID"] == node)
    memory = facts["Resources"].get("memory")
    if memory is None:
        return given
    return allowance(given, int(memory) + RESERVE, max(1, places(ray, asked, node)), PROCESS_MEMORY)
