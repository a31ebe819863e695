"""The engine's benchmark: its networks are the same in all three forms."""

import pytest
import torch

from genepool.dna import Shape, cost
from genepool.nn.bench.engine import INDIVIDUALS, LIMIT
from genepool.nn.bench.plain import CONTESTANTS


@pytest.mark.parametrize("name", CONTESTANTS)
def test_the_plain_network_is_the_one_that_the_dna_describes(name):
    dna, plain = CONTESTANTS[name]
    price = cost(dna, Shape(32, 32, 3), 10)
    network = plain()
    assert sum(p.numel() for p in network.parameters()) == price.parameters
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_the_sizes_are_those_of_the_plan():
    parameters = {name: cost(dna, Shape(32, 32, 3), 10).parameters for name, (dna, _) in CONTESTANTS.items()}
    assert 0.19e6 < parameters["six convolutions"] < 0.24e6
    assert 0.9e6 < parameters["wide"] < 1.2e6
    assert {name for name, _ in INDIVIDUALS} | set(LIMIT) <= set(CONTESTANTS)
