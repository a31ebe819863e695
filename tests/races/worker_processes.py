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
    """Always as many workers as planned, whatever happens to them."""

    def __init__(self, plan: Plan, live: Callable[[int], None]) -> None:
        self._plan, self._live = plan, live
        self._rng = Random(plan.seed)
        self.alive: set[int] = set()
        self._wakes: dict[int, float] = {}
        self._condemned: set[int] = set()
        self._started = 0
        self.blows: Counter[str] = Counter()
        self.died_unasked: list[str] = []

    def start(self) -> None:
        """Forks as many as are missing."""
        while len(self.alive) < self._plan.workers:
            self._started += 1
            process = os.fork()
            if process == 0:
                self._live(self._started)
            self.alive.add(process)

    def rage(self) -> None:
        """Blow after blow, until there were enough of each kind."""
        while self.blows["kill"] < self._plan.kills or self.blows["stop"] < self._plan.stops:
            self._wait(self._rng.expovariate(1 / self._plan.pause))
            (blow,) = self._rng.choices(list(BLOWS), list(BLOWS.values()))
            getattr(self, f"_{blow}")()
            self.start()

    def settle(self, seconds: float) -> None:
        """Wakes everybody, and lets them work in peace."""
        for process in list(self._wakes):
            self._wake(process)
        self.start()
        self._wait(seconds)

    def end(self) -> None:
        """Asks all to stop and waits for them."""
        for process in self.alive:
            os.kill(process, signal.SIGTERM)
            self._condemned.add(process)
        deadline = time.monotonic() + PATIENCE
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
            self._bury()
        for process in self.alive:
            self.died_unasked.append(f"a worker did not stop within {PATIENCE:g} s")
            os.kill(process, signal.SIGKILL)

    def end_at_once(self) -> None:
        """For when the storm itself fails."""
        for process in self.alive:
            os.kill(process, signal.SIGKILL)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))
            for process, at in list(self._wakes.items()):
                if at <= time.monotonic():
                    self._wake(process)
            self._bury()

    def _kill(self) -> None:
        process = self._rng.choice(sorted(self.alive))
        self._wakes.pop(process, None)
        self._condemned.discard(process)
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
        self._condemned.add(process)
        os.kill(process, signal.SIGTERM)
        self.blows["terminate"] += 1

    def _wake(self, process: int) -> None:
        del self._wakes[process]
        os.kill(process, signal.SIGCONT)

    def _bury(self) -> None:
        """Takes note of those who ended; only those who were told to may do so."""
        for process in list(self.alive):
            found, status = os.waitpid(process, os.WNOHANG)
            if not found:
                continue
            self.alive.discard(process)
            self._wakes.pop(process, None)
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGKILL:
                self.blows["at a rename"] += 1
            elif process not in self._condemned or code not in (0, -signal.SIGTERM):  # told before it could listen
                self.died_unasked.append(f"a worker ended by itself with exit code {code}")
            self._condemned.discard(process)
