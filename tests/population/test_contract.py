"""Both populations pass the shipped exam; the directory at both levels of durability and with one and many shards."""

from pathlib import Path

import pytest

from genepool.population import DirectoryPopulation, Files, MemoryPopulation, MemoryStore
from genepool.testing import Clock
from genepool.testing.population_contract import Exam, PopulationContract

from .simulation import with_shards

LEASE = 100.0


class TestMemoryPopulation(PopulationContract):
    @pytest.fixture
    def exam(self) -> Exam:
        clock = Clock()
        store = MemoryStore(clock=clock, lease=LEASE)
        return Exam(join=lambda: MemoryPopulation(store), clock=clock, lease=LEASE)


class TestDirectoryPopulation(PopulationContract):
    @pytest.fixture(params=["safe-1", "fast-1", "fast-16"])
    def exam(self, tmp_path: Path, request: pytest.FixtureRequest) -> Exam:
        durability, shards = request.param.split("-")
        clock = Clock()
        files = Files(durability=durability, monotonic=clock)
        with with_shards(int(shards)):
            DirectoryPopulation.establish(tmp_path, population_size=100, lease=LEASE, files=files)
        return Exam(join=lambda: DirectoryPopulation.open(tmp_path, files=files), clock=clock, lease=LEASE)
