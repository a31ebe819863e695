"""The store's whole exam through a real actor of a Ray cluster, as workers without a shared directory reach it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genepool.population import DirectoryPopulation
from genepool.population.served import ServedFiles
from genepool.testing import Clock
from genepool.testing.population_contract import Exam, PopulationContract

LEASE = 100.0


@pytest.fixture(scope="module")
def served(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    """A folder, and a line to the service that has it."""
    from genepool.engines.ray_nodes import join
    from genepool.engines.ray_service import Line, serve

    ray = join(cluster.address)
    root = tmp_path_factory.mktemp("served")
    yield root, Line(ray, serve(ray, str(root), str))
    ray.shutdown()


class TestPopulationThroughAnActor(PopulationContract):
    numbers = itertools.count()
    test_every_living_individual_is_equally_likely = (
        None  # thousands of draws, half a minute; there is nothing new in it
    )

    @pytest.fixture
    def exam(self, served: tuple[Path, Any]) -> Exam:
        root, line = served
        path = root / str(next(self.numbers))
        path.mkdir()
        clock = Clock()
        DirectoryPopulation.establish(path, population_size=100, lease=LEASE)

        def join() -> DirectoryPopulation:
            return DirectoryPopulation.open(path, files=ServedFiles(line, durability="fast", monotonic=clock))

        return Exam(join=join, clock=clock, lease=LEASE)
