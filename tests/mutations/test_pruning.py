"""Mutations that make networks smaller, and networks brought under a limit."""

import sys
from random import Random

import pytest

from genepool.dna import Capacity, Shape, capacity, initial, resnet, shapes, tied, wide_resnet
from genepool.errors import MutationError
from genepool.layers import GroupedConv, MaxPool, SqueezeExcitation
from genepool.mutations import apply, pruned_to
from tests.support.networks import chain, conv, mixed_dna, skip

IMAGE = Shape(32, 32, 3)
ENDS = {"from_vertex": "x", "to_vertex": "x"}


def widths(dna, image=IMAGE):
    return {name: shape.channels for name, shape in shapes(dna, image).edges.items()}


def test_channels_are_tied_by_sums_and_by_layers_that_keep_them_apart():
    dna = chain(conv("a"), MaxPool(id="p", **ENDS), conv("b"), conv("c")).edited(put=[skip("s", "v1", "v3")])
    groups = {frozenset(names) for names in tied(dna)}
    assert frozenset({"a", "v0", "p", "v1", "s", "c", "v3", "trunk", "output"}) in groups
    assert frozenset({"b", "v2"}) in groups
    assert frozenset({"input"}) in groups
    assert sum(map(len, groups)) == len(dna.vertices) + len(dna.edges)


@pytest.mark.parametrize("channels", [1, 3])
def test_one_group_loses_channels_and_all_others_keep_theirs(channels):
    dna, image = resnet(14, channels), Shape(32, 32, channels)
    groups = [{name for name in names if name in dna.edge} for names in tied(dna)]
    seen = set()
    for seed in range(60):
        before, after = widths(dna, image), widths(apply("prune-channels", dna, Random(seed)), image)
        changed = {name for name in before if after[name] != before[name]}
        assert changed in groups
        assert all(before[name] / 2 - 1 <= after[name] < before[name] for name in changed)
        seen.add(frozenset(changed))
    assert len(seen) == 7  # six blocks inside, and all that shortcuts join


def test_groups_of_a_grouped_convolution_stay_whole():
    dna = chain(conv("a", depth_factor=8.0), GroupedConv(id="g", groups=4.0, **ENDS), conv("b"))
    for seed in range(30):
        found = widths(apply("prune-channels", dna, Random(seed)))
        assert found["a"] % 4 == 0 and found["g"] % 4 == 0


def test_a_layer_is_only_removed_if_all_shapes_stay():
    dna, removed = resnet(14), set()
    before = shapes(dna, IMAGE).vertices
    for seed in range(60):
        child = apply("prune-layer", dna, Random(seed))
        after = shapes(child, IMAGE).vertices
        assert after.items() <= before.items()
        removed.add(frozenset(before.keys() - after.keys()))
    assert {len(names) for names in removed} == {1, 2}  # a layer, or a block without its end


def test_layers_of_other_kinds_can_be_removed():
    dna = chain(conv("a"), MaxPool(id="p", **ENDS), conv("b"))
    assert {apply("remove-layer", dna, Random(seed)) for seed in range(10)} == {
        dna.edited(drop=["p", "v1"], put=[moved(dna)])
    }
    excited = apply("insert-squeeze-excitation", chain(conv("a")), Random(0))
    assert any(isinstance(vertex, SqueezeExcitation) for vertex in excited.vertices)
    assert apply("remove-layer", excited, Random(0)) == chain(conv("a"))


def moved(dna):
    from msgspec.structs import replace

    return replace(dna.edge["b"], from_vertex="v0")


@pytest.mark.parametrize("name", ["prune-channels", "prune-layer", "remove-layer"])
def test_the_initial_network_has_nothing_to_lose(name):
    with pytest.raises(MutationError):
        apply(name, initial(), Random(0))


@pytest.mark.parametrize("part", [0.9, 0.5, 0.1])
@pytest.mark.parametrize("dna", [resnet(20), wide_resnet(16, 4)], ids=["resnet", "wide-resnet"])
def test_a_network_comes_just_under_a_limit(dna, part):
    full = capacity(dna, IMAGE, 10)
    limit = Capacity(sys.maxsize, int(part * full.flops))
    child = pruned_to(dna, IMAGE, 10, limit, Random(0))
    found = capacity(child, IMAGE, 10)
    assert found.flops <= limit.flops
    assert found.flops > 0.75 * limit.flops
    before, after = widths(dna), widths(child)
    shares = [after[edge.id] / before[edge.id] for edge in dna.edges if edge.sets_depth]
    assert max(shares) - min(shares) < 0.15  # a sixteenth, and rounding
    assert shapes(child, IMAGE).vertices.keys() == shapes(dna, IMAGE).vertices.keys()


def test_parameters_are_a_limit_too_and_no_limit_changes_nothing():
    dna = resnet(20)
    child = pruned_to(dna, IMAGE, 10, Capacity(50_000, sys.maxsize), Random(0))
    assert 35_000 < capacity(child, IMAGE, 10).parameters <= 50_000
    assert pruned_to(dna, IMAGE, 10, Capacity(sys.maxsize, sys.maxsize), Random(0)) == dna


def test_a_limit_out_of_reach_is_refused_in_words():
    for dna in (resnet(8), initial()):
        with pytest.raises(MutationError, match="even with the fewest channels the network has more than 3 parameters"):
            pruned_to(dna, IMAGE, 10, Capacity(3, 10**9), Random(0))


@pytest.mark.parametrize("seed", range(30))
def test_any_network_comes_under_half_of_its_flops_if_it_can(seed):
    dna = mixed_dna(seed)
    full = capacity(dna, IMAGE, 10)
    try:
        child = pruned_to(dna, IMAGE, 10, Capacity(sys.maxsize, full.flops // 2), Random(seed))
    except MutationError:
        return
    assert capacity(child, IMAGE, 10).flops <= full.flops // 2
