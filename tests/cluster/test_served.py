"""The store's whole exam, and a storm, through a real actor of a Ray cluster, as workers without a shared directory
reach it; and the images that travel with it.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from genepool.data import open_source, portable, prepare
from genepool.population import DirectoryPopulation, ServedFiles
from genepool.testing import Clock
from genepool.testing.contract import Harness, PopulationContract
from tests.races.findings import is_settled, judge
from tests.races.plan import Plan
from tests.races.storm_worker import read_testimonies
from tests.support.processes import wait_until
from tests.support.ray_processes import doing
from tests.support.ray_runs import PATIENCE

LEASE = 100.0
STORM = Plan(seed=1, kills=6, stops=0, workers=4, size=12, lease=3.0)
KILLS_OF_THE_SERVER = 2


@pytest.fixture(scope="module")
def ray(cluster: Any) -> Iterator[Any]:
    from genepool.workers.ray.nodes import join

    joined = join(cluster.address)
    yield joined
    joined.shutdown()


def served(ray: Any, root: Path) -> Any:
    """The service that has a folder."""
    from genepool.workers.ray.service import serve

    return serve(ray, str(root), str)


@pytest.fixture(scope="module")
def line(ray: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    from genepool.workers.ray.service import ServiceConnection

    root = tmp_path_factory.mktemp("served")
    return root, ServiceConnection(ray, served(ray, root))


class TestPopulationThroughAnActor(PopulationContract):
    numbers = itertools.count()
    test_every_living_individual_is_equally_likely = (
        None  # thousands of draws, half a minute; there is nothing new in it
    )

    @pytest.fixture
    def harness(self, line: tuple[Path, Any]) -> Harness:
        root, send = line
        path = root / str(next(self.numbers))
        path.mkdir()
        clock = Clock()
        DirectoryPopulation.establish(path, population_size=100, lease=LEASE)

        def join() -> DirectoryPopulation:
            return DirectoryPopulation.open(path, files=ServedFiles(send, durability="fast", monotonic=clock))

        return Harness(join=join, clock=clock, lease=LEASE)


def test_a_storm_over_workers_and_server_loses_nothing(ray, cluster, tmp_path):
    """Endless tasks of Ray's and the actor are killed at random; Ray brings them back, and every promise was kept."""
    population, testimonies = tmp_path / "population", tmp_path / "testimonies"
    population.mkdir()
    testimonies.mkdir()
    DirectoryPopulation.establish(population, population_size=STORM.size, lease=STORM.lease)
    service = served(ray, population)
    task = ray.remote(storm_victim).options(num_cpus=0.5, max_retries=-1)
    tasks = [task.remote(population, testimonies, STORM, number, service) for number in range(STORM.workers)]

    def finished() -> int:
        return len(read_testimonies(testimonies)[0])

    wait_until(lambda: finished() > STORM.size, PATIENCE)
    rng = Random(STORM.seed)
    blows = ["storm_victim"] * STORM.kills + ["Service"] * KILLS_OF_THE_SERVER
    rng.shuffle(blows)
    for blow in blows:
        wait_until(lambda blow=blow: doing(cluster, blow), PATIENCE)
        os.kill(rng.choice(doing(cluster, blow)), signal.SIGKILL)
        time.sleep(rng.expovariate(1 / 0.4))
    many = finished()
    wait_until(lambda: finished() > many + STORM.size, PATIENCE)
    time.sleep(2 * STORM.lease + 1)  # in which orphans are found and garbage is collected; on a busy machine later
    wait_until(lambda: is_settled(population, STORM, doing(cluster, "storm_victim")), PATIENCE)
    (tmp_path / "testimonies.over").touch()
    ray.get(tasks, timeout=PATIENCE)
    verdict = judge(population, testimonies, STORM, [])
    assert verdict.faults == []
    assert verdict.figures["taken over"] > 0


def storm_victim(population: Path, testimonies: Path, plan: Plan, number: int, service: Any) -> None:
    """One of the workers; ends when a file says that the storm is over."""
    import ray

    from genepool.workers.ray.service import ServiceConnection
    from tests.races.storm_worker import Testimony, evolve

    over = Path(f"{testimonies}.over")
    testimony = Testimony(testimonies / f"{number}-{os.getpid()}-{time.time_ns()}")
    files = ServedFiles(ServiceConnection(ray, service), durability="safe")
    evolve(population, files, testimony, plan, number, lambda: "it is over" if over.exists() else None)


def test_images_are_in_the_memory_of_a_node_once(ray):
    """They travel to each node's object store, and all that run there map them, at the same place."""
    images = ray.put(portable(prepare(open_source("fashion-mini"))))

    def place(data: Any) -> tuple[str, str, int]:
        import ray

        address = data.train_pixels.__array_interface__["data"][0]
        for line in Path("/proc/self/maps").read_text().splitlines():
            where, _, offset, _, inode, *path = line.split()
            start, end = (int(part, 16) for part in where.split("-"))
            if start <= address < end:
                file = f"{inode} {' '.join(path)}"
                return ray.get_runtime_context().get_node_id(), file, int(offset, 16) + address - start
        raise AssertionError("it is nowhere")

    task = ray.remote(place).options(num_cpus=0.3, scheduling_strategy="SPREAD")
    found = ray.get([task.remote(images) for _ in range(9)], timeout=PATIENCE)
    nodes = {node for node, _, _ in found}
    assert len(nodes) > 1
    assert len(set(found)) == len(nodes)
    assert all("/dev/shm" in file or "plasma" in file or "memfd" in file for _, file, _ in found), found
