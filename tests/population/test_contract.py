"""Both stores pass the contract tests, the directory at both levels of durability and with one and many shards."""

from pathlib import Path

import pytest

from genepool.population import DirectoryPopulation, Files, MemoryPopulation, MemoryStore
from genepool.testing import Clock
from genepool.testing.contract import Harness, PopulationContract
from tests.support.store_simulation import with_shards

LEASE = 100.0


class TestMemoryPopulation(PopulationContract):
    @pytest.fixture
    def harness(self) -> Harness:
        clock = Clock()
        store = MemoryStore(clock=clock, lease=LEASE)
        return Harness(join=lambda: MemoryPopulation(store), clock=clock, lease=LEASE)


class TestDirectoryPopulation(PopulationContract):
    @pytest.fixture(params=["safe-1", "fast-1", "fast-16"])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> Harness:
        durability, shards = request.param.split("-")
        clock = Clock()
        files = Files(durability=durability, monotonic=clock)
        with with_shards(int(shards)):
            DirectoryPopulation.establish(tmp_path, population_size=100, lease=LEASE, files=files)
        return Harness(join=lambda: DirectoryPopulation.open(tmp_path, files=files), clock=clock, lease=LEASE)
