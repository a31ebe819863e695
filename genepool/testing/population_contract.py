"""The exam that every population passes, ours or a stranger's.

Subclass `PopulationContract` in a test module and give it a fixture `exam`:

    class TestMyPopulation(PopulationContract):
        @pytest.fixture
        def exam(self, tmp_path):
            clock = Clock()
            return Exam(join=lambda: MyPopulation(tmp_path, clock=clock), clock=clock, lease=100.0)

`join` adds another worker to the same, at first empty, population.
"""

from __future__ import annotations

from genepool.testing.concurrency_contract import ConcurrencyContract
from genepool.testing.exam import Exam
from genepool.testing.life_contract import LifeContract

__all__ = ["Exam", "PopulationContract"]


class PopulationContract(LifeContract, ConcurrencyContract):
    """What `genepool.population.base` promises, one case a test."""
