"""Limits on the size of networks where mutations that lead over them are drawn again."""

import pytest

from genepool.dna import Largest, Size
from genepool.evolution import Breeding, Rules

ODDS = {"insert-convolution": 5.0, "identity": 1.0}


def evolved(world, largest):
    """The most convolutions among forty trained networks; each counts as a parameter and as a FLOP."""
    world.rules = Rules(population_size=6, breeding=Breeding(odds=ODDS), largest=largest)
    worker = world.worker(reason_to_stop=world.trainings(40), size=lambda dna: Size(len(dna.convs), len(dna.convs)))
    worker.run()
    assert len(world.judge.seen) == 40
    return max(len(dna.convs) for dna, *_ in world.judge.seen)


@pytest.mark.parametrize("largest", [Largest(parameters=2), Largest(parameters=99, flops=2)])
def test_nobody_is_born_over_a_limit_and_all_below_it_may_be(world, largest):
    assert evolved(world, largest) == 2


def test_without_redraws_evolution_goes_past_any_limit(world):
    assert evolved(world, None) > 2


def test_a_limit_says_which_and_what_to_do():
    assert Largest(5).fault(Size(5, 10**9)) is None
    assert Largest(5).fault(Size(6, 0)) == "6 parameters are over the limit of 5; raise max_parameters."
    assert Largest(5, 1e6).fault(Size(5, 1_000_001)) == (
        "1,000,001 FLOPs an image are over the limit of 1,000,000; raise max_flops."
    )
