"""The mutations by which networks get wide and deep quickly: always valid, never changing what they were given."""

from random import Random

import numpy as np
import pytest
import torch

from genepool.dna import Shape, decode, encode, initial, shapes
from genepool.errors import MutationError
from genepool.mutations import ELEVEN, apply, mutate
from genepool.nn import Model, Normaliser
from genepool.nn.inheritance import inherit_function
from tests.support.networks import chain, conv, random_dna

IMAGE, CPU = Shape(32, 32, 3), torch.device("cpu")
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


def test_the_others_grow_behind_the_first_and_halve_only_at_the_end():
    dna = chain(conv("a", depth_factor=10.0), conv("b", depth_factor=2.0))
    places, halved = set(), set()
    for seed in range(100):
        child = apply("grow-convolution", dna, Random(seed))
        [new] = [edge for edge in child.convs if edge.id not in dna.edge]
        place = child.backbone.index(new)
        places.add(place)
        if new.stride > 1 or new.depth_factor != 1.0:
            halved.add(place)
        assert shapes(child, IMAGE).vertices["v0"].channels == 30
    assert places == {1, 2}
    assert halved == {2}


def test_a_network_that_grew_computes_what_its_parent_computed(fashion):
    image, images = fashion.image, Normaliser(fashion, CPU)(np.array(fashion.validation_pixels[:50]))
    dna, kept = apply("grow-convolution", initial(), Random(1)), 0
    for seed in range(8):
        parent = Model(dna, image, 10, torch.Generator().manual_seed(seed)).eval()
        child_dna = apply("grow-convolution", dna, Random(seed))
        child = Model(child_dna, image, 10, torch.Generator().manual_seed(seed + 1))
        inherit_function(child, parent.state_dict(), images)
        theirs, ours = parent(images).softmax(1), child.eval()(images).softmax(1)
        if _halvings(child_dna) == _halvings(dna):
            assert float((theirs - ours).detach().abs().max()) < 1e-3, child_dna.in_a_line()
            kept += 1
        dna = child_dna
    assert kept > 3


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
            assert len(dna.convs) < 4 or not any(dna.is_mutable(conv) for conv in dna.convs)
            continue
        [changed] = [e for e in child.convs if e != dna.edge[e.id]]
        assert 1.2 <= changed.depth_factor / dna.edge[changed.id].depth_factor <= 2.0


def test_networks_become_deep_first_and_wide_later():
    with pytest.raises(MutationError, match="not deep enough"):
        apply("widen", chain(*map(conv, "abc")), Random(0))
    assert apply("widen", chain(*map(conv, "abcd")), Random(0))
    assert len(apply("grow-convolution", chain(*map(conv, "abcdefgh")), Random(0)).convs) == 9
    with pytest.raises(MutationError, match="is deep enough"):
        apply("grow-convolution", chain(*map(conv, "abcdefghi")), Random(0))


def _halvings(dna):
    return sum(edge.stride > 1 for edge in dna.convs)
