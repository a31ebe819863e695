"""Widths in steps, on DNAs that mutations have made."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genepool.dna import Shape, in_steps, initial, shapes
from genepool.evolution import Breeding, mutated
from tests.support.networks import chain, conv

ODDS = {"grow-convolution": 3.0, "widen": 2.0, "add-skip": 1.0, "alter-number-of-channels": 1.0, "identity": 1.0}
COLOUR = Shape(32, 32, 3)


def widths(dna, image=COLOUR):
    edges = shapes(dna, image).edges
    return {convolution.id: edges[convolution.id].channels for convolution in dna.convs}


@given(st.integers(0, 2**32), st.sampled_from([1, 3]), st.sampled_from([8, 16]))
def test_after_any_mutations_all_widths_are_multiples(seed, channels, step):
    rng, dna, image = Random(seed), initial(), Shape(28, 28, channels)
    breeding = Breeding(odds=ODDS, width_step=step)
    for _ in range(12):
        dna = mutated(dna, breeding, rng.getrandbits(63), image).dna
        assert all(width % step == 0 and width > 0 for width in widths(dna, image).values())
        assert in_steps(dna, dna, image, step) is dna


def test_what_grows_or_shrinks_does_so_by_a_step_and_the_rest_stays():
    parent = chain(conv("a", depth_factor=16 / 3), conv("b", depth_factor=20 / 16), conv("c", depth_factor=1.6))
    assert widths(parent) == {"a": 16, "b": 20, "c": 32}
    for name, factor, expected in (("a", 6.0, 32), ("c", 1.7, 48), ("c", 1.5, 16), ("b", 0.1, 16)):
        child = parent.edited(put=[replace(parent.edge[name], depth_factor=factor)])
        assert widths(in_steps(child, parent, COLOUR, 16)) == {"a": 16, "b": 20, "c": 32} | {name: expected}


def test_without_a_step_any_width_is_as_it_was_drawn():
    for seed in range(30):
        assert mutated(initial(), Breeding(odds=ODDS), seed, COLOUR) == mutated(initial(), Breeding(odds=ODDS), seed)
