"""Workers as plain child processes of this machine: started, restarted when they die, asked to stop, and waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from genepool.errors import GenepoolError
from genepool.workers.pool import PATIENCE

DONE, BAD_INPUT = 0, 2
"""Exit codes of a worker that has no more to do, and of one that cannot work at all."""
QUICK_DEATHS = 5
"""A worker that dies so often in a row, each time within seconds, has a fault that no restart mends."""
QUICK = 10.0


class Child:
    """One place for a worker: the process that fills it now, and how often its predecessors died."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = command, log
        self.restarts = self._quick_deaths = 0
        self.start()

    def start(self) -> None:
        self._started = time.monotonic()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with self._log.open("ab") as log:
            # A group of its own: Ctrl-C in a terminal reaches the launcher alone, which then asks the workers.
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def revive(self) -> None:
        """Starts the worker again after a death; refuses where that would go on for ever."""
        quick = time.monotonic() - self._started < QUICK
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        if self._quick_deaths >= QUICK_DEATHS:
            raise GenepoolError(f"A worker died {QUICK_DEATHS} times in a row; its words are in '{self._log}'.")
        self.restarts += 1
        self.start()

    def last_words(self) -> str:
        """The last line that the worker wrote."""
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


class LocalPool:
    """The workers of one `genepool run`."""

    def __init__(self, directory: Path, count: int, options: Sequence[str] = ()) -> None:
        logs = directory / "logs"
        logs.mkdir(exist_ok=True)
        # -P: with -m alone, Python would import from the current folder, which may be the experiment's or anybody's.
        python = [sys.executable, "-P", "-m", "genepool"]
        base = [*python, "worker", str(directory), "--parent", str(os.getpid()), "--pool-size", str(count), *options]
        self.children = [
            Child([*base, "--number", str(number)], logs / f"worker-{number}.log") for number in range(count)
        ]

    def running(self) -> int:
        """How many are at work."""
        return sum(child.process.poll() is None for child in self.children)

    @property
    def restarts(self) -> int:
        return sum(child.restarts for child in self.children)

    def work(self, look: Callable[[], None], every: float = 0.5) -> None:
        """Waits until all are done, starting again those that died, and looks around now and then."""
        while self._tend():
            look()
            time.sleep(every)

    def _tend(self) -> bool:
        """Whether anybody is still at work."""
        for child in self.children:
            code = child.process.poll()
            if code is None or code == DONE:
                continue
            if code == BAD_INPUT:
                raise GenepoolError(child.last_words().removeprefix("Error: ") or "A worker could not start.")
            child.revive()
        return self.running() > 0

    def stop(self, patience: float = PATIENCE) -> None:
        """Asks all to stop, which lets them hand over what they train, and waits; then ends those that are left."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.end()

    def end(self) -> None:
        """Ends all at once. Nothing that was finished is lost by it."""
        self._signal(signal.SIGKILL)
        for child in self.children:
            child.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        for child in self.children:
            if child.process.poll() is None:
                child.process.send_signal(number)
