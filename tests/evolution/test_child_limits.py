"""Limits on the size of networks where mutations that lead over them are drawn again."""

from random import Random

import pytest

from genepool.dna import Capacity
from genepool.evaluation import Limits
from genepool.evolution import Breeding, Rules
from genepool.evolution.reproduction import mutated, next_birth
from genepool.population import Individual, State
from tests.support.networks import chain, conv

ODDS = {"insert-convolution": 5.0, "identity": 1.0}


def evolved(world, limits):
    """The most convolutions among forty trained networks; each counts as a parameter and as a FLOP."""
    world.rules = Rules(population_size=6, breeding=Breeding(odds=ODDS), limits=limits)
    worker = world.worker(reason_to_stop=world.trainings(40), size=lambda dna: Capacity(len(dna.convs), len(dna.convs)))
    worker.run()
    assert len(world.judge.seen) == 40
    return max(len(dna.convs) for dna, *_ in world.judge.seen)


@pytest.mark.parametrize("limits", [Limits(parameters=2, redraw=True), Limits(parameters=99, flops=2, redraw=True)])
def test_no_child_is_born_over_a_limit_and_all_below_it_may_be(world, limits):
    assert evolved(world, limits) == 2


def test_without_redraws_evolution_goes_past_any_limit(world):
    assert evolved(world, Limits(parameters=2)) > 2


def test_what_cannot_be_afforded_is_drawn_again_of_its_own_kind():
    """Else growth, of which only some can be afforded, would be crowded out by what costs nothing."""
    parent = Individual(id="p", state=State.ALIVE)
    dna = chain(*(conv(name, stride_scale=1.0) for name in "ab"))  # a third halving is rare
    halving = [born(parent, dna, seed, lambda child: stridden(child) > 2 or child == dna) for seed in range(200)]
    assert 0.35 < sum(child != dna for child in halving) / 200 < 0.65


def test_where_none_of_a_kind_can_be_afforded_another_kind_is_born_and_else_a_copy():
    parent, dna = Individual(id="p", state=State.ALIVE), chain(conv("a"))
    faster = {"grow-convolution": 1.0, "alter-learning-rate": 1.0}
    for seed in range(20):
        assert born(parent, dna, seed, lambda child: len(child.convs) == 1, faster).learning_rate != dna.learning_rate
        assert born(parent, dna, seed, lambda child: False, faster) == dna


def born(parent, dna, seed, affordable, odds=None):
    breeding = Breeding(odds=odds or {"grow-convolution": 1.0, "identity": 1.0})
    newborn = next_birth(parent, dna, breeding, Random(seed), 1, affordable=affordable)
    again, _ = mutated(dna, breeding, newborn.birth.mutation_seed)
    assert newborn.birth.mutations == ("identity",) or again == newborn.dna  # it can be repeated
    return newborn.dna


def stridden(dna):
    return sum(edge.stride > 1 for edge in dna.convs)


def test_a_limit_says_which_and_what_to_do():
    few = Limits(parameters=5)
    assert few.fault(Capacity(5, 10**9)) is None
    assert few.fault(Capacity(6, 0)) == "6 parameters are over the limit of 5; raise limits.parameters."
    assert Limits(parameters=5, flops=1e6).fault(Capacity(5, 1_000_001)) == (
        "1,000,001 FLOPs per image are over the limit of 1,000,000; raise limits.flops."
    )
