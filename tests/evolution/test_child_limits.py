"""Limits on the size of children, beyond which mutations are drawn again."""

from random import Random

import pytest

from genepool.dna import Capacity
from genepool.evaluation import Limits
from genepool.evolution import Breeding, ChildLimits, Rules, mutated
from genepool.evolution.reproduction import allowed_child
from tests.support.networks import chain, conv

ODDS = {"insert-convolution": 5.0, "identity": 1.0}


def evolved(world, rules):
    """The most convolutions among forty trained networks; each counts as a parameter and as a FLOP."""
    world.rules = Rules(population_size=6, breeding=Breeding(odds=ODDS), limits=rules)
    limits = ChildLimits(capacity=lambda dna: Capacity(len(dna.convs), len(dna.convs)))
    worker = world.worker(reason_to_stop=world.trainings(40), limits=limits)
    worker.run()
    assert len(world.judge.seen) == 40
    return max(len(dna.convs) for dna, *_ in world.judge.seen)


@pytest.mark.parametrize("limits", [Limits(parameters=2, redraw=True), Limits(parameters=99, flops=2, redraw=True)])
def test_no_child_exceeds_a_limit_and_all_below_it_are_allowed(world, limits):
    assert evolved(world, limits) == 2


def test_without_redraws_evolution_goes_past_any_limit(world):
    assert evolved(world, Limits(parameters=2)) > 2


def test_a_network_that_is_too_slow_only_has_smaller_children(world):
    rules = Limits(milliseconds=1.0, redraw=True)
    limits = ChildLimits(capacity=lambda dna: Capacity(len(dna.convs), len(dna.convs)))
    assert rules.is_slow(2.0) and not rules.is_slow(0.5) and not rules.is_slow(None) and not Limits().is_slow(2.0)
    large, small = (chain(*(conv(name) for name in names)) for names in ("abc", "ab"))
    is_allowed = limits.smaller_than(large)
    assert is_allowed(small) and not is_allowed(large)
    assert ChildLimits().smaller_than(large)(large)  # nothing is known


def test_an_unaffordable_mutation_is_drawn_again_of_its_own_kind():
    """Otherwise growth, which is not always affordable, would give way to mutations that cost nothing."""
    dna = chain(*(conv(name, stride_scale=1.0) for name in "ab"))  # a third halving is rare
    halving = [born(dna, seed, lambda child: stridden(child) > 2 or child == dna) for seed in range(200)]
    assert 0.35 < sum(child != dna for child in halving) / 200 < 0.65


def test_without_an_affordable_child_of_a_kind_another_kind_or_a_copy_is_born():
    dna = chain(conv("a"))
    faster = {"grow-convolution": 1.0, "alter-learning-rate": 1.0}
    for seed in range(20):
        assert born(dna, seed, lambda child: len(child.convs) == 1, faster).learning_rate != dna.learning_rate
        assert born(dna, seed, lambda child: False, faster) == dna


def born(dna, seed, affordable, odds=None):
    breeding = Breeding(odds=odds or {"grow-convolution": 1.0, "identity": 1.0})
    child = allowed_child(dna, breeding, Random(seed), affordable)
    if child is None:
        return dna
    assert mutated(dna, breeding, child.seed) == child  # it can be repeated
    return child.dna


def stridden(dna):
    return sum(edge.stride > 1 for edge in dna.convs)


def test_the_message_names_the_limit_and_the_cure():
    few = Limits(parameters=5)
    assert few.fault(Capacity(5, 10**9)) is None
    assert few.fault(Capacity(6, 0)) == "6 parameters are over the limit of 5; raise limits.parameters."
    assert Limits(parameters=5, flops=1e6).fault(Capacity(5, 1_000_001)) == (
        "1,000,001 FLOPs per image are over the limit of 1,000,000; raise limits.flops."
    )
