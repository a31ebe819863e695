"""The training benchmark: its networks are the same in all three forms."""

import pytest
import torch

from genepool.dna import Shape, requirements
from genepool.testing.bench import rounds
from genepool.testing.bench.baseline import NETWORKS
from genepool.testing.bench.training import INDIVIDUALS, LIMIT, train_individuals


@pytest.mark.parametrize("name", NETWORKS)
def test_the_plain_network_is_the_one_that_the_dna_describes(name):
    dna, plain = NETWORKS[name]
    needs = requirements(dna, Shape(32, 32, 3), 10)
    network = plain()
    assert sum(p.numel() for p in network.parameters()) == needs.parameters
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_the_sizes_are_those_of_the_plan():
    parameters = {name: requirements(dna, Shape(32, 32, 3), 10).parameters for name, (dna, _) in NETWORKS.items()}
    assert 0.19e6 < parameters["six convolutions"] < 0.24e6
    assert 0.9e6 < parameters["wide"] < 1.2e6
    assert {name for name, _ in INDIVIDUALS} | set(LIMIT) <= set(NETWORKS)


def test_individuals_go_through_the_worker_and_its_store(fashion, monkeypatch):
    monkeypatch.setattr(rounds, "_data", fashion)
    seconds, overhead = train_individuals("one convolution", 20, 3, "auto")
    assert seconds > 0
    assert 0 < overhead < 1


@pytest.mark.thorough
@pytest.mark.whole
def test_ours_and_the_plain_loop_train_the_same_network(whole_data, monkeypatch):
    from genepool.data import SOURCES, open_source, prepare

    monkeypatch.setattr(rounds, "_data", prepare(open_source("cifar-10", data_dir=whole_data)))
    monkeypatch.setattr(rounds, "VALIDATION", 500)
    folder = SOURCES.get("cifar-10").find(whole_data)
    assert 0.05 < rounds.ours(0, steps=3) < 0.4
    assert 0.05 < rounds.plain(folder, 0, steps=3) < 0.4
