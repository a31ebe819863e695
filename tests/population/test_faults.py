"""Fault loops: for every public operation and every n, the n-th system call fails in every way.

After each fault the invariants hold, and a new worker takes over what was left and continues to evolve.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from genepool.errors import GenepoolError
from genepool.population import (
    Checkpoint,
    DirectoryPopulation,
    Files,
    Individual,
    State,
    check_directory,
    publish_version,
)
from genepool.testing import Clock, make_birth, make_weights
from tests.support.fake_files import Crash, Disk, FakeFiles, Folder
from tests.support.toy_worker import ToyWorker

LEASE = 100.0
FILES = {"weights.safetensors": make_weights()}
ERRNOS = [errno.ENOSPC, errno.EIO, errno.ESTALE, errno.EACCES, errno.EDQUOT, errno.EROFS, errno.EINTR, errno.ENOENT]
FAULTS = [
    *(errno.errorcode[number] for number in ERRNOS),
    "done-but-failed",
    "short-write",
    "crash-before",
    "crash-after",
]


class Meddler:
    """Makes one call fail, or all calls from that one on, once `left` is set."""

    def __init__(self, fault: str, *, persistent: bool) -> None:
        self.fault = fault
        self.persistent = persistent
        self.left: int | None = None
        self.met = False
        self.dead = False

    def __call__(self, name: str, arguments: tuple[Any, ...], call: Callable[..., Any]) -> Any:
        if self.dead:
            raise Crash
        if self.left is None or not self._applies(name):
            return call(*arguments)
        self.left -= 1
        if self.left == 0 or (self.left < 0 and self.persistent):
            self.met = True
            return self._fail(name, arguments, call)
        return call(*arguments)

    def _applies(self, name: str) -> bool:
        if self.fault == "short-write":
            return name == "write"
        if self.fault == "done-but-failed":
            return name in ("mkdir", "rename", "link", "unlink", "rmdir")
        if self.fault in ("ENOSPC", "EDQUOT"):
            return name in ("mkdir", "link", "open", "write", "fsync", "close")
        return name != "close" or self.fault.startswith("crash")

    def _fail(self, name: str, arguments: tuple[Any, ...], call: Callable[..., Any]) -> Any:
        match self.fault:
            case "crash-before":
                self.dead = True
                raise Crash
            case "crash-after":
                call(*arguments)
                self.dead = True
                raise Crash
            case "short-write":
                descriptor, data = arguments
                return call(descriptor, data[: len(data) // 2])
            case "done-but-failed":
                call(*arguments)
                # A repeated request meets its own effect.
                number = errno.EEXIST if name in ("mkdir", "link") else errno.ENOENT
                raise OSError(number, "done, but the reply was lost")
            case text:
                if name == "close":
                    call(*arguments)
                raise OSError(getattr(errno, text), text)


class World:
    """A small population with an individual in every situation, and a worker that is about to meet a fault."""

    meddlers: type[Meddler] = Meddler

    def __init__(self, fault: str, *, persistent: bool = False, durability: str = "safe") -> None:
        self.disk, self.clock = Disk(), Clock()
        self.rng = random.Random(1)
        self.durability = durability
        setup = self.client()
        self.disk.root.entries["exp"] = self.disk.root.durable["exp"] = Folder()
        DirectoryPopulation.establish("/exp", population_size=4, lease=LEASE, files=setup)
        other = DirectoryPopulation.open("/exp", files=setup)
        self.alive = self.grow(other, 1)
        self.dead = other.kill(self.grow(other, 2))
        self.other = self.grow(other, 6)
        self.orphan = other.create(make_birth(3, parents=(self.alive,)), parents=(self.alive,))
        other.save_checkpoint(self.orphan, Checkpoint(step=5, data=b"five"))
        self.adoptable = other.create(make_birth(4))
        self.leave_a_result(other, self.adoptable)
        self.meddler = self.meddlers(fault, persistent=persistent)
        self.files = self.client(self.meddler)
        self.worker = DirectoryPopulation.open("/exp", files=self.files)
        self.mine = self.worker.create(make_birth(5, parents=(self.alive,)), parents=(self.alive,))
        self.finished = {self.alive.id: 0.1, self.dead.id: 0.2}

    def client(self, meddle: Any = None) -> Files:
        return FakeFiles(self.disk, rng=self.rng, clock=self.clock, durability=self.durability, meddle=meddle)

    def grow(self, worker: DirectoryPopulation, number: int) -> Individual:
        return worker.finish(worker.create(make_birth(number)), fitness=number / 10, files=FILES)

    def leave_a_result(self, worker: DirectoryPopulation, individual: Individual) -> None:
        """Leave the same as an owner that crashed between the result and the rename that publishes it."""

        class Stop(Exception):  # noqa: N818
            pass

        def stop(*_: object) -> None:
            raise Stop

        shards = worker._shards
        move, shards.move = shards.move, stop
        with pytest.raises(Stop):
            worker.finish(individual, fitness=0.9, files=FILES)
        shards.move = move

    def acknowledge(self, alive: Individual) -> None:
        self.finished[alive.id] = alive.fitness

    def goes_on(self) -> None:
        """Let a new worker repair what is left and evolve; no finished individual is lost."""
        files = self.client()
        fresh = ToyWorker(DirectoryPopulation.open("/exp", files=files), random.Random(2), 4, {})
        self.dead_or_alive()
        if not self.meddler.dead:
            survivor = ToyWorker(self.worker, random.Random(3), 4, {})
            for _ in range(3):
                survivor.try_step()
            self.finished |= survivor.finished
        for _ in range(12):
            self.clock.advance(LEASE / 5)
            fresh.try_step()
        assert sum(fresh.try_step() for _ in range(6)) >= 3
        for _ in range(3):
            fresh.population.census(fresh=True)
            for individual in fresh.population.garbage():
                fresh.population.collect(individual)
        fresh.population.close()
        report = check_directory("/exp", files=files, settled=True, finished=self.finished | fresh.finished)
        assert report.violations == []
        assert report.census.living >= 2

    def lose_power(self) -> None:
        """Lose power ten times, keeping synced and some unsynced changes; every finished individual must be there."""
        before = copy.deepcopy(self.disk)
        for seed in range(10):
            self.disk = copy.deepcopy(before)
            self.disk.lose_power(random.Random(seed))
            self.dead_or_alive()

    def dead_or_alive(self) -> None:
        report = check_directory("/exp", files=self.client(), finished=self.finished)
        assert report.violations == []


OPERATIONS: dict[str, Callable[[World], object]] = {
    "open": lambda w: DirectoryPopulation.open("/exp", files=w.files),
    "snapshot": lambda w: w.worker.snapshot(),
    "sample": lambda w: w.worker.sample(random.Random(1)),
    "census": lambda w: w.worker.census(fresh=True),
    "orphans": lambda w: w.worker.orphans(),
    "garbage": lambda w: w.worker.garbage(),
    "read_birth": lambda w: w.worker.read_birth(w.alive),
    "read_result": lambda w: w.worker.read_result(w.alive),
    "weights": lambda w: w.worker.weights(w.alive),
    "inherited_weights": lambda w: w.worker.inherited_weights(w.mine),
    "checkpoint": lambda w: w.worker.checkpoint(w.orphan),
    "fossils": lambda w: list(w.worker.fossils()),
    "create": lambda w: w.worker.create(make_birth(9)),
    "create_with_parent": lambda w: w.worker.create(make_birth(9, parents=(w.alive,)), parents=(w.alive,)),
    "create_with_two_parents": lambda w: w.worker.create(
        make_birth(9, parents=(w.alive, w.other)), parents=(w.alive, w.other)
    ),
    "save_checkpoint": lambda w: w.worker.save_checkpoint(w.mine, Checkpoint(step=1, data=b"one")),
    "finish": lambda w: w.acknowledge(w.worker.finish(w.mine, fitness=0.7, files=FILES)),
    "fail": lambda w: w.worker.fail(w.mine, "dna", "It has a cycle."),
    "hand_over": lambda w: w.worker.hand_over(w.mine),
    "take_over": lambda w: w.worker.take_over(w.orphan),
    "adopt": lambda w: w.acknowledge(w.worker.take_over(w.adoptable)),
    "kill": lambda w: w.worker.kill(w.alive),
    "collect": lambda w: w.worker.collect(w.dead),
    "quarantine": lambda w: w.worker.quarantine(w.alive, "files"),
    "heartbeat": lambda w: w.worker.heartbeat("train", 7),
    "publish_version": lambda w: publish_version(w.files, "/exp", 2, {"odds": 2}),
}


def run(
    operation: str,
    fault: str,
    number: int,
    *,
    persistent: bool,
    durability: str = "safe",
    kind: type[World] = World,
) -> bool:
    """Run one case; return False if the operation makes fewer calls."""
    world = kind(fault, persistent=persistent, durability=durability)
    world.clock.advance(LEASE / 10)
    world.meddler.left = number
    with contextlib.suppress(GenepoolError, Crash):
        OPERATIONS[operation](world)
    world.meddler.left = None
    if world.meddler.met:
        world.goes_on()
    return world.meddler.met


ALIKE = {"EINTR", "EACCES", "EROFS", "ESTALE", "EDQUOT"}
"""Answers of a system that the store treats as it does others."""


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.thorough) if fault in ALIKE else fault for fault in FAULTS]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_nth_call_fails_once(operation: str, fault: str) -> None:
    number = 1
    while run(operation, fault, number, persistent=False):
        number += 1
    assert number < 200


@pytest.mark.parametrize(
    "fault", ["ENOSPC", *(pytest.param(it, marks=pytest.mark.thorough) for it in ("EIO", "EROFS"))]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_from_the_nth_on_fails(operation: str, fault: str) -> None:
    number = 1
    while run(operation, fault, number, persistent=True):
        number += 1
    assert number < 200


def adoption_is_durable(fault: str) -> None:
    """Crash at every call of `finish`; what another worker then adopts must survive a power loss."""
    for number in itertools.count(1):
        world = World(fault)
        world.disk.sync()
        world.meddler.left = number
        with contextlib.suppress(Crash):
            OPERATIONS["finish"](world)
        if not world.meddler.met:
            break
        taker = DirectoryPopulation.open("/exp", files=world.client())
        [left] = [individual for individual in taker.snapshot() if individual.id == world.mine.id]
        if left.state is State.TRAINING:
            left = taker.take_over(left)
        if left.state is State.ALIVE:
            world.acknowledge(left)
        world.lose_power()


@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
def test_an_adopted_result_survives_a_power_loss(fault: str) -> None:
    adoption_is_durable(fault)
