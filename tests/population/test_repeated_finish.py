"""A result is worth hours of training: after any failure to store it, storing it again succeeds."""

from __future__ import annotations

import itertools

import pytest

from genepool.errors import ConcurrencyError, StorageError
from genepool.population import Checkpoint, State
from genepool.testing import make_birth
from tests.population.test_faults import FAULTS, FILES, LEASE, World

SURVIVED = [fault for fault in FAULTS if not fault.startswith("crash")]


def finish(world: World) -> None:
    world.acknowledge(world.worker.finish(world.mine, fitness=0.7, files=FILES))


def stored(world: World) -> bool:
    try:
        finish(world)
    except StorageError:
        return False
    except ConcurrencyError:  # an earlier try had succeeded after all
        return True
    return True


@pytest.mark.parametrize("fault", SURVIVED)
def test_a_finish_that_failed_at_any_call_can_be_repeated(fault: str) -> None:
    failures = 0
    for number in itertools.count(1):
        world = World(fault)
        world.clock.advance(LEASE / 10)
        world.disk.sync()
        world.worker.save_checkpoint(world.mine, Checkpoint(step=1, data=b"one"))
        world.meddler.left = number
        failed = not stored(world)
        world.meddler.left = None
        if failed:
            failures += 1
            assert stored(world)
        [mine] = [each for each in world.worker.snapshot() if each.id == world.mine.id]
        assert mine.state is State.ALIVE, number
        assert world.worker.weights(mine) == FILES["weights.safetensors"]
        world.dead_or_alive()
        world.lose_power()
        if not world.meddler.met:
            break
    assert failures or fault in ("done-but-failed", "short-write", "EINTR")


@pytest.mark.parametrize("number", range(1, 8))
def test_a_full_disk_fails_until_there_is_space(number: int) -> None:
    world = World("ENOSPC", persistent=True)
    world.meddler.left = number
    for _ in range(20):
        with pytest.raises(StorageError):
            finish(world)
    world.meddler.left = None
    finish(world)
    world.goes_on()


def test_a_first_finish_makes_no_extra_calls() -> None:
    world = World("EIO")
    worker = world.worker
    costs = []
    for number in range(3):
        child = worker.create(make_birth(number))
        world.meddler.left = 10_000
        worker.finish(child, fitness=0.5, files=FILES)
        costs.append(10_000 - world.meddler.left)
    assert len(set(costs)) == 1
