"""Deterministic simulation: real worker code over a fake file system, one system call at a time.

Every worker is a thread that waits for its turn before each system call. One seeded generator decides which worker is
next, which one freezes, crashes or meets an error, and when the power fails, so a seed repeats a history. Afterwards
the faults end, workers get time for repairs, and the invariants are checked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from genepool.errors import GenepoolError, StepAbandoned
from genepool.population import DirectoryPopulation, Files, State, check_directory
from genepool.population.check import Report
from genepool.population.directory import manifest
from tests.support.fake_files import Crash, Disk, FakeFiles, Folder
from tests.support.production_worker import ProductionWorker
from tests.support.toy_worker import ToyWorker

ROOT = "/exp"
JUMPS = (-86_400.0, -3_600.0, 3_600.0, 86_400.0, 365 * 86_400.0)
"""Seconds by which a wall clock is set forward or back."""
ERRORS = (errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EACCES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a simulation; probabilities are per system call."""

    workers: int = 8
    size: int = 8
    shards: int = 4
    calls: int = 2_000
    lease: float = 500.0
    pace: float = 2.0
    """The longest duration of a system call in seconds."""
    durability: str = "safe"
    stale: float = 0.3
    crash: float = 0.002
    freeze: float = 0.002
    error: float = 0.002
    lost_reply: float = 0.004
    power_loss: float = 0.0
    clock_jump: float = 0.0
    """The probability that a worker's wall clock is changed."""
    founders: int = 0
    """Steps that one worker makes without faults before the others join."""
    production: bool = False
    """Whether to simulate the production worker or the toy, which behaves more oddly."""


def with_shards(number: int) -> AbstractContextManager[object]:
    """Create experiments with this number of shards, whatever their size.

    The faults of a history depend on it: with many shards most calls are listings.
    """
    return mock.patch.object(manifest, "shards_for", lambda _: number)


class Over(BaseException):
    """The simulation has made all its calls."""


class Simulation:
    """One history."""

    def __init__(self, seed: int, plan: Plan, population: type[DirectoryPopulation] = DirectoryPopulation) -> None:
        self.rng = random.Random(seed)
        self.plan = plan
        self.kind = population
        self.disk = Disk()
        self.now = 1_000.0
        self.calls = 0
        self.blackouts = 0
        self.finished: dict[str, float] = {}
        self.used_names: set[str] = set()
        self.problems: list[str] = []
        self.trace = hashlib.sha256()
        self.crashes = self.freezes = self.takeovers = 0
        self._turns = [threading.Lock() for _ in range(plan.workers)]
        self._wakes = [0.0] * plan.workers
        self._clocks = [1.8e9] * plan.workers
        self._running = [True] * plan.workers
        self._done = threading.Event()
        self.disk.root.entries["exp"] = self.disk.root.durable["exp"] = Folder()
        with with_shards(plan.shards):
            self.kind.establish(ROOT, population_size=plan.size, lease=plan.lease, files=self.client())
        self.disk.sync()

    def client(self, meddle: Any = None, stale: float = 0.0, number: int = 0) -> Files:
        return FakeFiles(
            self.disk,
            rng=self.rng,
            clock=lambda: self.now,
            wall=lambda: self._clocks[number] + self.now,
            durability=self.plan.durability,
            stale=stale,
            meddle=meddle,
        )

    # Running.

    def run(self) -> Report:
        """Run with faults, then without, and check the invariants."""
        if self.plan.founders:
            self._found()
        for turn in self._turns:
            turn.acquire()
        threads = [threading.Thread(target=self._live, args=(number,)) for number in range(self.plan.workers)]
        for thread in threads:
            thread.start()
        self._turns[0].release()
        self._done.wait()
        for thread in threads:
            thread.join()
        self._settle()
        return check_directory(ROOT, files=self.client(), settled=True, finished=self.finished)

    def _found(self) -> None:
        founder = self._worker(self.kind.open(ROOT, files=self.client()), lambda _: None)
        for _ in range(self.plan.founders):
            founder.try_step()
        self.disk.sync()

    def _live(self, number: int) -> None:
        self._turns[number].acquire()
        try:
            while True:
                try:
                    self._incarnation(number)
                except Crash:
                    # It is restarted some time later.
                    self.crashes += 1
                    self._wakes[number] = self.now + self.rng.random() * self.plan.lease
                except GenepoolError:
                    self._wakes[number] = self.now + self.plan.lease / 10
        except Over:
            pass
        except BaseException as error:  # noqa: BLE001 - a finding, whatever it is
            self.problems.append(f"worker {number}: {error!r}")
            self.calls = self.plan.calls
        self._running[number] = False
        self._pass_on()

    def _incarnation(self, number: int) -> None:
        blackouts = self.blackouts

        def meddle(name: str, arguments: tuple[Any, ...], call: Callable[..., Any]) -> Any:
            self._wait_for_turn(number)
            if self.blackouts != blackouts:
                raise Crash
            return self._call(number, name, arguments, call)

        def sleep(seconds: float) -> None:
            self._wakes[number] = self.now + seconds
            self._wait_for_turn(number)

        population = self.kind.open(ROOT, files=self.client(meddle, self.plan.stale, number))
        worker = self._worker(population, sleep)
        while not worker.stopping:
            worker.try_step()

    def _worker(self, population: DirectoryPopulation, sleep: Callable[[float], None]) -> ToyWorker | ProductionWorker:
        toy_like = (population, self.rng, self.plan.size, self.finished)
        if not self.plan.production:
            return ToyWorker(*toy_like)
        return ProductionWorker(*toy_like, clock=lambda: self.now, sleep=sleep)

    def _wait_for_turn(self, number: int) -> None:
        if self.calls >= self.plan.calls:
            raise Over
        self.calls += 1
        self.now += self.rng.random() * self.plan.pace
        following = self._choose()
        if following != number:
            self._turns[following].release()
            self._turns[number].acquire()
            if self.calls >= self.plan.calls:
                raise Over

    def _choose(self) -> int:
        awake = [n for n, wake in enumerate(self._wakes) if wake <= self.now and self._running[n]]
        if awake:
            return awake[int(self.rng.random() * len(awake))]
        alive = [n for n, running in enumerate(self._running) if running]
        first = min(alive, key=lambda n: self._wakes[n])
        self.now = max(self.now, self._wakes[first])
        return first

    def _pass_on(self) -> None:
        for number, running in enumerate(self._running):
            if running:
                self._turns[number].release()
                return
        self._done.set()

    # Meddling.

    def _call(self, number: int, name: str, arguments: tuple[Any, ...], call: Callable[..., Any]) -> Any:
        plan, rng = self.plan, self.rng
        if rng.random() < plan.freeze:
            self.freezes += 1
            self._wakes[number] = self.now + plan.lease * rng.choice((0.2, 1.7, 3.0))
            self._wait_for_turn(number)
        if rng.random() < plan.power_loss:
            self.blackouts += 1
            self.disk.lose_power(rng)
            self.used_names.clear()
            self._look_at_the_damage()
            raise Crash
        if plan.clock_jump and rng.random() < plan.clock_jump:
            self._clocks[number] += rng.choice(JUMPS)
        luck = rng.random()
        if luck < plan.crash:
            raise Crash
        if luck < plan.crash + plan.error and name != "close":
            raise OSError(rng.choice(ERRORS), "an injected error")
        result = call(*arguments)
        self._watch(number, name, arguments)
        if luck > 1 - plan.crash:
            raise Crash
        if luck > 1 - plan.crash - plan.lost_reply and name in ("rename", "mkdir", "link", "unlink", "rmdir"):
            raise OSError(errno.EEXIST if name in ("mkdir", "link") else errno.ENOENT, "a lost reply")
        return result

    def _look_at_the_damage(self) -> None:
        """Check before a worker quarantines the damage; without syncs there may be some."""
        if self.plan.durability == "fast":
            self.finished.clear()
            return
        report = check_directory(ROOT, files=self.client(), finished=self.finished)
        self.problems += [f"after a power loss: {violation}" for violation in report.violations]

    def _watch(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        self.trace.update(f"{number} {name} {arguments[0]}\n".encode())
        if name == "rename" and arguments[1].count("/") == 4 and "/pop/" in arguments[1]:
            new = arguments[1].rpartition("/")[2]
            # Collectors may rename an archived individual back and forth before it is gone, without consequences.
            if new in self.used_names and not new.startswith("X"):
                self.problems.append(f"the name {new} was used twice")
            self.used_names.add(new)
            self.takeovers += new.startswith("T") and "_1_0_" not in new

    # Afterwards.

    def _settle(self) -> None:
        """Give two workers without faults a little more than two leases, in which they must repair everything."""
        workers = [self._worker(self.kind.open(ROOT, files=self.client()), lambda _: None) for _ in range(2)]
        for worker in workers:
            worker.hand_over = 0.0
        for _ in range(12):
            self.now += self.plan.lease / 5
            for worker in workers:
                worker.try_step()
                worker.try_step()
        for _ in range(3):
            workers[0].population.census(fresh=True)
            workers[0].try_step()
        for individual in workers[0].population.snapshot():
            if individual.state is State.ALIVE:
                with contextlib.suppress(StepAbandoned):
                    workers[0].population.weights(individual)
            elif individual.state is State.TRAINING:
                self.problems.append(f"{individual} is still in training after more than two leases")
        for worker in workers:
            worker.population.close()
