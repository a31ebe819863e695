"""The processes of a storm: started by forking, killed, stopped, woken and replaced."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.races.plan import BLOWS, NAPS, Plan

PATIENCE = 120.0


class Crowd:
    """The workers of a storm; dead ones are replaced."""

    def __init__(self, plan: Plan, live: Callable[[int], None]) -> None:
        self._plan, self._live = plan, live
        self._rng = Random(plan.seed)
        self.alive: set[int] = set()
        self._wakes: dict[int, float] = {}
        self._terminated: set[int] = set()
        self._started = 0
        self.blows: Counter[str] = Counter()
        self.unexpected_exits: list[str] = []

    def start(self) -> None:
        """Fork the missing workers."""
        while len(self.alive) < self._plan.workers:
            self._started += 1
            process = os.fork()
            if process == 0:
                self._live(self._started)
            self.alive.add(process)

    def attack(self) -> None:
        """Send signals until there were enough of each kind."""
        while self.blows["kill"] < self._plan.kills or self.blows["stop"] < self._plan.stops:
            self._wait(self._rng.expovariate(1 / self._plan.pause))
            (blow,) = self._rng.choices(list(BLOWS), list(BLOWS.values()))
            getattr(self, f"_{blow}")()
            self.start()

    def settle(self, seconds: float) -> None:
        """Wake all workers and let them work without signals."""
        for process in list(self._wakes):
            self._wake(process)
        self.start()
        self._wait(seconds)

    def end(self) -> None:
        """Ask all workers to stop and wait for them."""
        for process in self.alive:
            os.kill(process, signal.SIGTERM)
            self._terminated.add(process)
        deadline = time.monotonic() + PATIENCE
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap()
        for process in self.alive:
            self.unexpected_exits.append(f"a worker did not stop within {PATIENCE:g} s")
            os.kill(process, signal.SIGKILL)

    def end_at_once(self) -> None:
        """Kill all workers, if the storm itself fails."""
        for process in self.alive:
            os.kill(process, signal.SIGKILL)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))
            for process, at in list(self._wakes.items()):
                if at <= time.monotonic():
                    self._wake(process)
            self._reap()

    def _kill(self) -> None:
        process = self._rng.choice(sorted(self.alive))
        self._wakes.pop(process, None)
        self._terminated.discard(process)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        self.alive.discard(process)
        self.blows["kill"] += 1

    def _stop(self) -> None:
        if awake := sorted(self.alive - set(self._wakes)):
            process = self._rng.choice(awake)
            os.kill(process, signal.SIGSTOP)
            self._wakes[process] = time.monotonic() + self._plan.lease * self._rng.choice(NAPS)
            self.blows["stop"] += 1

    def _terminate(self) -> None:
        process = self._rng.choice(sorted(self.alive))
        self._terminated.add(process)
        os.kill(process, signal.SIGTERM)
        self.blows["terminate"] += 1

    def _wake(self, process: int) -> None:
        del self._wakes[process]
        os.kill(process, signal.SIGCONT)

    def _reap(self) -> None:
        """Record the workers that have exited; only those that were asked to may exit."""
        for process in list(self.alive):
            found, status = os.waitpid(process, os.WNOHANG)
            if not found:
                continue
            self.alive.discard(process)
            self._wakes.pop(process, None)
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGKILL:
                self.blows["at a rename"] += 1
            # A code of -SIGTERM means that the signal came before its handler was installed.
            elif process not in self._terminated or code not in (0, -signal.SIGTERM):
                self.unexpected_exits.append(f"a worker ended by itself with exit code {code}")
            self._terminated.discard(process)
