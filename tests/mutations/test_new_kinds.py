"""Mutations that use kinds of layers beyond the paper's: always valid, computable, and what they say."""

from random import Random

import pytest
import torch

from genepool.dna import Shape, decode, encode, initial, resnet, shapes
from genepool.errors import ModelTooLargeError, MutationError
from genepool.layers import LAYERS, Conv, GroupedConv, Identity, MaxPool, SeparableConv
from genepool.mutations import ELEVEN, MUTATIONS, apply, mutate
from genepool.nn import Model
from tests.support.networks import EVERY, affordable, chain, conv, mixed_dna, skip

SMALL, IMAGE = Shape(9, 7, 3), Shape(32, 32, 3)
ENDS = {"from_vertex": "x", "to_vertex": "x"}
NEW = (
    "insert-depthwise", "insert-squeeze-excitation", "insert-pooling", "insert-residual-block", "add-projection",
    "alter-operation", "make-separable", "alter-groups", "alter-activation", "alter-layer",
    "prune-channels", "prune-layer", "remove-layer",
)  # fmt: skip


def test_they_are_registered_and_take_part_only_if_the_odds_name_them():
    assert set(MUTATIONS.names()) >= set(NEW) and not set(NEW) & set(ELEVEN)
    rng = Random(0)
    assert not {mutate(initial(), rng).name for _ in range(300)} & set(NEW)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(4, 40))]
)
def test_chains_of_fifty_of_all_mutations_stay_valid(seed):
    rng, dna = Random(f"chain {seed}"), initial()
    for _ in range(50):
        before = encode(dna)
        name, child = mutate(dna, rng, EVERY)
        assert encode(dna) == before
        assert decode(encode(child)) == child, name
        try:
            sizes = shapes(child, SMALL)
        except ModelTooLargeError:
            continue
        assert all(min(shape) >= 1 for shape in (*sizes.vertices.values(), *sizes.edges.values()))
        dna = child


def test_random_networks_have_layers_of_all_kinds():
    found = {layer.type for seed in range(60) for dna in [mixed_dna(seed)] for layer in (*dna.vertices, *dna.edges)}
    only_alone = {"affine", "relu", "relu6", "silu", "gelu", "hard_swish"}  # from networks from elsewhere
    assert found == set(LAYERS.names()) - only_alone


@pytest.mark.parametrize("name", NEW)
def test_children_can_be_built_and_trained(name):
    done = 0
    for seed in range(60):
        try:
            child = apply(name, mixed_dna(seed, longest=30), Random(seed))
        except MutationError:
            continue
        if not affordable(child, SMALL):
            continue
        generator = torch.Generator().manual_seed(seed)
        model = Model(child, SMALL, 5, generator)
        scores = model(torch.randn(4, 3, 9, 7, generator=generator))
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(4))
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        assert all(gradient.isfinite().all() for gradient in gradients if gradient is not None)
        done += 1
        if done == 8:
            return
    assert done == 8


def test_a_pooling_takes_over_a_stride_and_keeps_the_shapes():
    dna = chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b"))
    strided = 0
    for seed in range(60):
        child = apply("insert-pooling", dna, Random(seed))
        [pool] = [edge for edge in child.edges if edge.id not in dna.edge]
        if pool.from_vertex == "input":
            strided += 1
            assert pool.stride == 2 and child.edge["a"].stride == 1
            for image in (IMAGE, Shape(31, 5, 1)):
                after, before = shapes(child, image).vertices, shapes(dna, image).vertices
                assert before.items() <= after.items()
    assert strided > 5


def test_a_projection_fits_where_it_leads_and_is_a_skip():
    dna = resnet(14)
    for seed in range(40):
        child = apply("add-projection", dna, Random(seed))
        [new] = [edge for edge in child.edges if edge.id not in dna.edge]
        sizes = shapes(child, IMAGE)
        assert child.backbone == dna.backbone and new in child.skips
        assert sizes.edges[new.id] == sizes.vertices[new.to_vertex] or sizes.vertices[new.from_vertex].height == 32


def test_a_residual_block_keeps_all_shapes():
    dna, kinds = resnet(8), set()
    for seed in range(40):
        child = apply("insert-residual-block", dna, Random(seed))
        assert shapes(dna, IMAGE).vertices.items() <= shapes(child, IMAGE).vertices.items()
        new = [edge for edge in child.edges if edge.id not in dna.edge]
        kinds.add(tuple(sorted(edge.type for edge in new)))
        [beside] = [edge for edge in new if isinstance(edge, Identity)]
        assert beside in child.skips
    assert kinds == {("conv", "conv", "identity"), ("conv", "conv", "depthwise_conv", "identity")}


def test_operations_change_within_their_family():
    pooled = chain(MaxPool(id="p", size=4.0, stride_scale=1.0, **ENDS))
    child = apply("alter-operation", pooled, Random(0))
    assert child.edge["p"].type == "average_pool" and child.edge["p"].size == 4.0 and child.edge["p"].stride == 2
    kinds = {
        type(edge) for seed in range(60) for edge in apply("alter-operation", chain(conv("a")), Random(seed)).edges
    }
    assert {kind.__struct_config__.tag for kind in kinds} == {
        "identity", "grouped_conv", "separable_conv", "depthwise_conv",
    }  # fmt: skip
    wider = chain(conv("a", depth_factor=2.0))
    kinds = {type(edge) for seed in range(60) for edge in apply("alter-operation", wider, Random(seed)).edges}
    assert kinds == {Identity, GroupedConv, SeparableConv}


def test_a_convolution_becomes_separable_with_the_same_numbers():
    dna = chain(conv("a", depth_factor=3.0, filter_half_width=2.0, stride_scale=1.0))
    child = apply("make-separable", dna, Random(0)).edge["a"]
    assert isinstance(child, SeparableConv)
    assert (child.depth_factor, child.filter_width, child.filter_height, child.stride) == (3.0, 5, 3, 2)
    with pytest.raises(MutationError):
        apply("make-separable", chain(conv("a", filter_half_width=0.0, filter_half_height=0.0)), Random(0))


def test_groups_double_and_halve():
    dna = chain(conv("a", depth_factor=16.0))
    divided = apply("alter-groups", dna, Random(0))
    assert divided.edge["a"].groups == 2.0
    seen = set()
    for seed in range(20):
        [new] = apply("alter-groups", divided, Random(seed)).convs
        seen.add((type(new), getattr(new, "groups", 1.0)))
        assert new.id != "a"
    assert seen == {(Conv, 1.0), (GroupedConv, 4.0)}


def test_activations_change_and_normalisation_stays():
    dna = chain(conv("a"))
    kinds = {apply("alter-activation", dna, Random(seed)).vertex["v0"].type for seed in range(60)}
    assert kinds == {"bn", "bn_relu6", "bn_silu", "bn_gelu", "bn_hard_swish"}
    kinds = {apply("alter-activation", chain(conv("a"), kind="silu"), Random(s)).vertex["v0"].type for s in range(60)}
    assert kinds == {"relu", "relu6", "gelu", "hard_swish"}
    with pytest.raises(MutationError):
        apply("alter-activation", chain(conv("a"), kind="linear"), Random(0))


def test_numbers_of_other_kinds_are_drawn_between_half_and_twice():
    dna = chain(MaxPool(id="p", size=6.0, stride_scale=2.0, **ENDS), conv("a"))
    pools = [apply("alter-layer", dna, Random(seed)).edge["p"] for seed in range(400)]
    sizes = [pool.size for pool in pools if pool.size != 6.0]
    scales = [pool.stride_scale for pool in pools if pool.stride_scale != 2.0]
    assert len(sizes) + len(scales) == 400 and min(len(sizes), len(scales)) > 150
    assert 3.0 <= min(sizes) < 3.3 and 11.7 < max(sizes) <= 12.0
    assert 1.0 <= min(scales) < 1.1 and 2.9 < max(scales) <= 3.0
    with pytest.raises(MutationError):
        apply("alter-layer", chain(conv("a")), Random(0))


def test_numbers_stay_within_their_bounds():
    dna = chain(MaxPool(id="p", size=1.0, **ENDS), conv("a")).edited(put=[skip("s", "input", "v1")])
    for seed in range(100):
        pool = apply("alter-layer", dna, Random(seed)).edge["p"]
        assert 1.0 <= pool.size <= 2.0 and 0.0 <= pool.stride_scale <= 1.0
