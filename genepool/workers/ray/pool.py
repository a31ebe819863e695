"""Workers as long-running tasks of a Ray cluster. Ray places them, spreads them over the nodes, and runs them again
after the loss of a process or node; workers that do not fit wait until a node joins. Nothing that must last is in Ray.
"""

import functools
import itertools
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from genepool.errors import EngineError, GenepoolError, PopulationFormatError, StorageError
from genepool.population import ServedFiles
from genepool.workers import RESERVE, PoolOptions, RayOptions, WorkerFunctions, WorkerOptions, WorkerPool
from genepool.workers.pool import allowance, on_ray
from genepool.workers.ray.nodes import (
    Ray,
    address_of_node,
    check_images,
    check_nodes,
    here,
    is_joined,
    join,
    pinned,
    places,
)
from genepool.workers.ray.service import ServiceConnection, Starts, serve

PAUSE = 30.0  # seconds before a worker that could not use the store is started again
LOOK_EVERY = 3.0
"""Seconds between two reads of the starts once all workers have begun: a call takes processor time from trainings, and
only a worker that begins again elsewhere would change them."""
SERIES = 10**5
"""The most workers of a pool; the numbers of another pool of the same experiment begin at a multiple of it."""


class Served(NamedTuple):
    """Actors and objects in Ray for workers that do not see the directory."""

    service: Any = None
    images: Any = None


class Task(NamedTuple):
    """One start of a worker."""

    serial: int
    number: int


class RayPool(WorkerPool):
    """Workers on a Ray cluster. Their number follows the setting while they run."""

    def __init__(self, options: PoolOptions, ray_options: RayOptions, functions: WorkerFunctions) -> None:
        """Join the cluster and check its nodes; no worker is started yet."""
        self._asked, self._functions, self._share = ray_options, functions, options.share
        self._resources, self._options = ray_options.resources(), on_ray(options, ray_options)
        shared = None if ray_options.serve else Path(self._options.directory)
        self._logs = shared / "logs" if shared else None
        self._joined_before = is_joined()
        self._ray = join(ray_options.address)
        self._check_nodes = functools.partial(check_nodes, self._ray, shared, self._resources)
        try:
            self._check_nodes()
            self._served = self._prepare()
        except BaseException:
            self._leave()
            raise
        self._serials = itertools.count()
        self._tasks: dict[Any, Task] = {}  # by Ray's reference
        self._leaving: set[Any] = set()
        self._paused: dict[int, float] = {}
        self._over, self._next_look, self._restarts = False, 0.0, 0
        self._seen: dict[int, tuple[int, str]] = {}

    def _prepare(self) -> Served | None:
        """Have the images ready on every node, or in Ray for workers that reach everything through this machine."""
        if self._asked.serve:
            service = serve(self._ray, self._options.directory, self._functions.accounts)
            return Served(service, self._ray.put(self._functions.images(self._options)))
        digest = check_images(self._ray, self._functions.digest, self._options, self._resources)
        self._options = msgspec.structs.replace(self._options, images=digest)
        return None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            super().__exit__(kind, *rest)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Leave the cluster, unless this process had joined it before."""
        if not self._joined_before:
            self._ray.shutdown()

    # -- looking ------------------------------------------------------------------------------------------------------

    def running(self) -> int:
        """The number of workers that have begun, on nodes that are still there."""
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        seen = self._read_starts()
        return sum(task.serial in seen and seen[task.serial][1] in alive for task in self._tasks.values())

    @property
    def restarts(self) -> int:
        """How often a worker was started again, by this pool or by Ray."""
        return self._restarts + sum(times - 1 for times, _ in self._seen.values())

    def _read_starts(self) -> dict[int, tuple[int, str]]:
        now = time.monotonic()
        if not self._tasks or (now < self._next_look and all(t.serial in self._seen for t in self._tasks.values())):
            return self._seen
        self._next_look = now + LOOK_EVERY
        with suppress(self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
            # Merged, because an actor that was lost has forgotten earlier starts.
            self._seen = {**self._seen, **self._ray.get(self._starts.read.remote(), timeout=10)}
        return self._seen

    # -- working ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        ray = self._ray
        self._starts = ray.remote(Starts).options(num_cpus=0, max_restarts=-1, **pinned(here(ray))).remote()
        self._task = ray.remote(_run_worker).options(
            max_retries=-1, num_cpus=self._asked.cpus, num_gpus=self._asked.gpus, scheduling_strategy="SPREAD"
        )
        if self._logs is not None:
            self._logs.mkdir(exist_ok=True)
        self._adjust()

    def tend(self) -> bool:
        for reference in self._finished():
            self._settle(reference)
        if self._over:
            # Workers that have begun notice the end of the budget themselves; the others need not begin.
            begun = self._read_starts()
            self._cancel([reference for reference, task in self._tasks.items() if task.serial not in begun])
        else:
            self._adjust()
        return bool(self._tasks or self._paused)

    def _finished(self) -> list[Any]:
        if not self._tasks:
            return []
        done, _ = self._ray.wait([*self._tasks], num_returns=len(self._tasks), timeout=0)
        return list(done)

    def _settle(self, reference: Any) -> None:
        """Note how a worker ended: done, cancelled, to be started again, or with an error that ends the run."""
        number, cancelled = self._tasks.pop(reference).number, reference in self._leaving
        self._leaving.discard(reference)
        exceptions = self._ray.exceptions
        try:
            ended = self._ray.get(reference)
        except exceptions.TaskCancelledError:
            return
        except exceptions.RayTaskError as error:
            self._handle(error.cause, number)
            return
        except exceptions.RayError:  # lost, and not restarted by Ray
            self._restarts += 1
            return
        if not ended.stop_requested:
            self._over = True
        elif not cancelled:  # its node is being drained
            self._restarts += 1

    def _handle(self, cause: BaseException, number: int) -> None:
        """A bug stops the run with its message; a store that fails for a moment does not."""
        if isinstance(cause, StorageError):
            self._restarts += 1
            self._paused[number] = time.monotonic() + PAUSE
            return
        if isinstance(cause, PopulationFormatError) or not isinstance(cause, GenepoolError):
            # A node that joined later may not see the directory, or may have another release.
            self._check_nodes()
        if isinstance(cause, GenepoolError):
            raise GenepoolError(str(cause))
        words = f"{type(cause).__name__}: {cause}".strip().splitlines()[0]
        raise EngineError(f"Worker {number} failed with {words}; this is a bug, and the traceback is in the logs.")

    def _adjust(self) -> None:
        """Have the number of workers that is wanted now: cancel the highest numbers, start the lowest free ones."""
        wanted = self._functions.wanted() or max(1, places(self._ray, self._resources) // self._share.pools)
        self.count = min(wanted, self._share.most or wanted)
        first, now = self._share.series * SERIES, time.monotonic()
        last = first + self.count
        self._paused = {number: until for number, until in self._paused.items() if until > now and number < last}
        self._cancel([reference for reference, task in self._tasks.items() if task.number >= last])
        taken = {task.number for task in self._tasks.values()} | set(self._paused)
        for number in range(first, last):
            if number not in taken:
                task = Task(next(self._serials), number)
                self._tasks[self._begin(task)] = task

    def _begin(self, task: Task) -> Any:
        options = msgspec.structs.replace(self._options, number=task.number)
        log = str(self._logs / f"worker-{task.number}.log") if self._logs else None
        # Top-level arguments, because Ray only resolves those: the images arrive as the object itself.
        run, entry = self._functions.run, (task.serial, self._starts)
        return self._task.remote(run, (options, self._resources, log), entry, *(self._served or Served()))

    # -- stopping -----------------------------------------------------------------------------------------------------

    def _cancel(self, references: list[Any], *, force: bool = False) -> None:
        for reference in references:
            if force or reference not in self._leaving:
                self._leaving.add(reference)
                self._ray.cancel(reference, force=force, recursive=False)

    def _request_stop(self, patience: float) -> None:
        self._cancel([*self._tasks])
        if self._tasks:
            self._ray.wait([*self._tasks], num_returns=len(self._tasks), timeout=patience)

    def end(self) -> None:
        done = self._finished()
        self._cancel([reference for reference in self._tasks if reference not in done], force=True)
        self._tasks = {}


Given = tuple[WorkerOptions, dict[str, float], str | None]


def _run_worker(run: Any, given: Given, entry: tuple[int, Any], service: Any, images: Any) -> Any:
    """One worker, on its node."""
    import ray

    (options, resources, log), (serial, starts), node = given, entry, here(ray)
    starts.add.remote(serial, node)
    logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True)
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    memory, address = _memory(ray, node, resources, options.memory), address_of_node(ray)
    options = msgspec.structs.replace(options, memory=memory, address=address)
    if service is None:
        return run(options)
    connection = ServiceConnection(ray, service)
    return run(options, files=ServedFiles(connection), data=images, spent=connection.spent)


def _memory(ray: Ray, node: str, resources: dict[str, float], asked: int | None) -> int | None:
    """The bytes that a worker may use: an equal share of what Ray counts as the node's memory."""
    memory = next(found for found in ray.nodes() if found["NodeID"] == node)["Resources"].get("memory")
    if memory is None:
        return asked
    return allowance(asked, int(memory) + RESERVE, max(1, places(ray, resources, node)))
