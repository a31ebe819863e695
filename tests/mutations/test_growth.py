"""The mutations by which networks get wide and deep quickly: always valid, never changing what they were given."""

from random import Random

import pytest

from genepool.dna import Shape, decode, encode, initial, shapes
from genepool.errors import MutationError
from genepool.mutations import ELEVEN, apply, mutate
from tests.support.networks import chain, conv, random_dna

IMAGE = Shape(32, 32, 3)
ODDS = dict.fromkeys((*ELEVEN, "grow-convolution", "widen"), 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_chains_with_growth_stay_valid(seed):
    rng, dna = Random(seed), initial()
    for _ in range(60):
        before = encode(dna)
        _name, child = mutate(dna, rng, ODDS)
        assert encode(dna) == before
        assert decode(encode(child)) == child
        dna = child


def test_the_first_convolution_is_wide_for_any_number_of_channels():
    for seed in range(50):
        dna = apply("grow-convolution", initial(), Random(seed))
        [first] = dna.convs
        assert 6.0 <= first.depth_factor <= 24.0
        assert shapes(dna, IMAGE).vertices[dna.output].channels >= 18
        assert dna.vertex[first.to_vertex].type == "bn_relu"


def test_one_in_front_of_the_first_takes_its_width_over():
    dna = chain(conv("a", depth_factor=10.0), conv("b", depth_factor=2.0))
    fronts = 0
    for seed in range(60):
        child = apply("grow-convolution", dna, Random(seed))
        sizes = shapes(child, IMAGE).vertices
        assert sizes["v0"].channels in (30, *range(30, 61)) and sizes[child.output].channels >= 60
        if child.edge["a"].from_vertex != child.input:
            fronts += 1
            [new] = [e for e in child.convs if e.from_vertex == child.input]
            assert new.depth_factor == 10.0 and child.edge["a"].depth_factor == 1.0
            assert sizes["v0"].channels == 30
    assert fronts > 5


def test_the_more_halvings_there_are_the_rarer_is_another():
    def share(dna):
        children = [apply("grow-convolution", dna, Random(seed)) for seed in range(300)]
        return sum(_halvings(child) > _halvings(dna) for child in children) / 300

    none, three = chain(conv("a")), chain(*(conv(name, stride_scale=1.0) for name in "abc"))
    assert share(none) > 0.7
    assert share(three) < 0.3


def test_widening_widens():
    for seed in range(100):
        dna = random_dna(seed, longest=20)
        try:
            child = apply("widen", dna, Random(seed))
        except MutationError:
            assert len(dna.convs) < 2 or not any(dna.is_mutable(conv) for conv in dna.convs)
            continue
        [changed] = [e for e in child.convs if e != dna.edge[e.id]]
        assert 1.2 <= changed.depth_factor / dna.edge[changed.id].depth_factor <= 2.0


def test_a_single_convolution_is_not_widened():
    with pytest.raises(MutationError, match="wide enough"):
        apply("widen", chain(conv("a", depth_factor=10.0)), Random(0))


def _halvings(dna):
    return sum(edge.stride > 1 for edge in dna.convs)
