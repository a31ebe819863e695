"""Workers as child processes: started, restarted when they die, asked to stop, and waited for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from genepool.errors import GenepoolError
from genepool.workers.pool import STOPPED, PoolOptions, WorkerOptions, WorkerPool, memory_per_worker, that_fit

DONE, BAD_INPUT = 0, 2  # the exit codes of a worker that has no more to do, and of one that cannot work at all
QUICK_DEATHS, QUICK = 5, 10.0
"""A worker that dies this often in a row, each time within these seconds, will not be cured by another restart."""


class Child:
    """One worker of a pool: its current process, and how often earlier ones died."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = command, log
        self.restarts = self._quick_deaths = 0
        self.start()

    def start(self) -> None:
        self._started = time.monotonic()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C in a terminal reaches only the launcher, which then stops the workers.
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def restart(self) -> None:
        """Start the process again after it died, unless it keeps dying."""
        self._quick_deaths = self._quick_deaths + 1 if time.monotonic() - self._started < QUICK else 0
        if self._quick_deaths >= QUICK_DEATHS:
            raise GenepoolError(f"A worker died {QUICK_DEATHS} times in a row; its messages are in '{self._log}'.")
        self.restarts += 1
        self.start()

    def last_line(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


class LocalPool(WorkerPool):
    """Workers on this machine, each with its share of the cores, the GPUs and the memory."""

    def __init__(self, options: PoolOptions) -> None:
        """Refuse workers that would not fit into memory, or start fewer of a derived number; none is started yet."""
        self.count = _count(options)
        self._options = WorkerOptions(
            directory=str(options.directory), number=0, device=options.device, plugins=options.plugins,
            data_dir=str(options.data_dir) if options.data_dir else None, parent=os.getpid(),
            memory=memory_per_worker(options.memory, self.count, options.share.memory),
            pool_size=self.count, per_gpu=_per_gpu(options, self.count),
        )  # fmt: skip
        self._first, self._logs = options.share.series * self.count, options.directory / "logs"
        self._children: list[Child] = []

    def start(self) -> None:
        self._logs.mkdir(exist_ok=True)
        # -P: with -m alone, Python would also import modules from the current folder, which may hold anything.
        base = [sys.executable, "-P", "-m", "genepool", *self._options.words()]
        # A scheduler signals all processes of a job: a worker that was stopped is not one that has no more to do.
        base += ["--exit-code-on-stop", str(STOPPED)]
        for number in range(self._first, self._first + self.count):
            self._children.append(Child([*base, "--number", str(number)], self._logs / f"worker-{number}.log"))

    def running(self) -> int:
        return sum(child.process.poll() is None for child in self._children)

    @property
    def restarts(self) -> int:
        return sum(child.restarts for child in self._children)

    def tend(self) -> bool:
        for child in self._children:
            code = child.process.poll()
            if code in (None, DONE):
                continue
            if code == BAD_INPUT:
                raise GenepoolError(child.last_line().removeprefix("Error: ") or "A worker could not start.")
            child.restart()
        return self.running() > 0

    def _request_stop(self, patience: float) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.05)

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        for child in self._children:
            child.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.process.poll() is None:
                child.process.send_signal(number)


def _count(options: PoolOptions) -> int:
    """The number in the options, or the pool's share of `per_gpu` workers per GPU, or of one per core without a GPU."""
    here = _gpus(options.device) * options.per_gpu if options.count is None else 0
    count = options.count or max(1, (here or os.cpu_count() or 1) // options.share.pools)
    count = min(count, options.share.most or count)
    return that_fit(count, options.memory, options.share.memory) if options.is_derived else count


def _per_gpu(options: PoolOptions, count: int) -> int | None:
    """The workers of all pools that share a GPU; None: this is the only pool."""
    found = _gpus(options.device) if options.share.pools > 1 else 0
    return -(-count * options.share.pools // found) if found else None


def _gpus(device: str) -> int:
    if device == "cpu":
        return 0
    from genepool.nn import gpus

    return gpus(device)
