"""Both stores and the contract's defaults pass the contract tests, the directory at both levels of durability."""

from pathlib import Path

import pytest

from genepool.population import DirectoryPopulation, Files, MemoryPopulation, MemoryStore, Population
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


class PlainPopulation(MemoryPopulation):
    """A store without methods of its own where the contract has defaults."""

    sample, census, garbage = Population.sample, Population.census, Population.garbage


class TestDefaults(PopulationContract):
    @pytest.fixture
    def harness(self) -> Harness:
        clock = Clock()
        store = MemoryStore(clock=clock, lease=LEASE)
        return Harness(join=lambda: PlainPopulation(store), clock=clock, lease=LEASE)


class TestDirectoryPopulation(PopulationContract):
    @pytest.fixture(params=["safe-1", "fast-1", "fast-16"])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> Harness:
        durability, shards = request.param.split("-")
        clock = Clock()
        files = Files(durability=durability, monotonic=clock)
        with with_shards(int(shards)):
            DirectoryPopulation.establish(tmp_path, population_size=100, lease=LEASE, files=files)
        return Harness(join=lambda: DirectoryPopulation.open(tmp_path, files=files), clock=clock, lease=LEASE)
