"""What each mutation does to the graph, against brute force where there is a choice."""

from itertools import pairwise, product
from random import Random

import pytest

from genepool.dna import initial
from genepool.errors import InvalidDNAError, MutationError, SettingsError
from genepool.layers import BatchNormRelu, Conv, Identity
from genepool.mutations import MUTATIONS, apply, mutate
from tests.support.networks import chain, conv, random_dna, skip

CANNOT_ACT = (
    "remove-convolution",
    "alter-stride",
    "alter-number-of-channels",
    "filter-size",
    "add-skip",
    "remove-skip",
)


@pytest.mark.parametrize("name", CANNOT_ACT)
def test_on_the_initial_network_some_mutations_cannot_act_and_say_so(name):
    with pytest.raises(MutationError):
        apply(name, initial(), Random(0))


def test_a_mutation_that_cannot_act_gives_way_to_another():
    rng = Random(0)
    odds = dict.fromkeys((*CANNOT_ACT, "identity"), 1.0)
    assert {mutate(initial(), rng, odds).name for _ in range(50)} == {"identity"}


def test_where_nothing_can_act_it_is_said():
    with pytest.raises(MutationError, match="none of the allowed"):
        mutate(initial(), Random(0), {"remove-skip": 1.0})
    with pytest.raises(SettingsError, match="odds above zero"):
        mutate(initial(), Random(0), {"identity": 0.0})
    with pytest.raises(SettingsError, match="did you mean 'add-skip'"):
        mutate(initial(), Random(0), {"add-skp": 1.0})


def test_a_number_out_of_bounds_is_a_mutation_that_cannot_act():
    with pytest.raises(MutationError, match="would break a rule"):
        for seed in range(50):
            apply("alter-number-of-channels", chain(conv("a", depth_factor=9e5)), Random(seed))


def addable(dna):
    """Every skip that could be added, found by trying all."""
    found = set()
    for source, target in product(dna.backbone_vertices, repeat=2):
        try:
            dna.edited(put=[skip("trial", source, target)])
        except InvalidDNAError:
            continue
        found.add((source, target))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_add_skip_reaches_every_allowed_pair_and_no_other(seed):
    dna = random_dna(seed, longest=25)
    rng = Random(seed)
    allowed, seen = addable(dna), set()
    for _ in range(60 * len(allowed)):
        child = apply("add-skip", dna, rng)
        [new] = set(child.skips) - set(dna.skips)
        assert child.backbone == dna.backbone
        seen.add(new.arc)
    assert seen == allowed


def test_add_skip_ends_when_all_are_joined():
    dna = chain(conv("a"), conv("b"), conv("c"))
    rng = Random(0)
    for _ in range(10 - 4):  # ten forward pairs of five vertices, four of them the backbone's
        dna = apply("add-skip", dna, rng)
    with pytest.raises(MutationError, match="connected already"):
        apply("add-skip", dna, rng)


def test_inserting_keeps_the_split_edge_with_its_id():
    dna = chain(conv("a", depth_factor=4.0))
    for seed in range(20):
        for name, kind in (("insert-convolution", Conv), ("insert-one-to-one", Identity)):
            child = apply(name, dna, Random(seed))
            [new] = [edge for edge in child.backbone if edge.id not in dna.edge]
            old = next(edge for edge in child.backbone if edge.from_vertex == new.to_vertex)
            assert isinstance(new, kind)
            assert old.id in dna.edge
            assert (new.from_vertex, old.to_vertex) == dna.edge[old.id].arc


def test_removing_undoes_inserting():
    dna = chain(conv("a"))
    for seed in range(20):
        child = apply("insert-convolution", dna, Random(seed))
        results = {apply("remove-convolution", child, Random(s)) for s in range(20)}
        assert dna in results


def test_removing_moves_skips_to_the_neighbour():
    dna = chain(conv("a"), conv("b"), conv("c"), conv("d"))
    dna = dna.edited(put=[skip("into", "v0", "v2"), skip("out", "v2", "output"), skip("over", "input", "v3")])
    child = removed(dna, "c")
    assert {edge.id: edge.arc for edge in child.skips} == {"out": ("v1", "output"), "over": ("input", "v3")}
    assert [edge.id for edge in child.backbone] == ["a", "b", "d", "trunk"]  # "into" would have repeated "b"


def test_removing_keeps_the_backbone_where_a_skip_runs_beside_it():
    dna = chain(conv("a"), conv("b"), conv("c")).edited(put=[skip("s", "v0", "v2")])
    child = removed(dna, "b")
    assert [edge.id for edge in child.backbone] == ["a", "c", "trunk"]
    assert child.skips == ()


def removed(dna, name):
    for seed in range(200):
        child = apply("remove-convolution", dna, Random(seed))
        if name not in child.edge:
            return child
    raise AssertionError(f"{name} was never removed")


def test_remove_skip_removes_one_skip():
    dna = chain(conv("a"), conv("b")).edited(put=[skip("s", "input", "v1"), skip("t", "v0", "output")])
    left = {tuple(edge.id for edge in apply("remove-skip", dna, Random(seed)).skips) for seed in range(20)}
    assert left == {("s",), ("t",)}


def test_reset_weights_renames_everything_and_changes_nothing_else():
    dna = random_dna(3)
    child = apply("reset-weights", dna, Random(0))
    assert not {*child.vertex, *child.edge} & {*dna.vertex, *dna.edge}
    back = dict(zip(child.backbone_vertices, dna.backbone_vertices, strict=True))
    back |= {new.id: old.id for new, old in zip(child.backbone, dna.backbone, strict=True)}
    arcs = {edge.arc: edge.id for edge in dna.skips}
    back |= {new.id: arcs[back[new.from_vertex], back[new.to_vertex]] for new in child.skips}
    assert child.renamed(back) == dna


def test_one_seed_used_twice_gives_other_ids():
    dna = initial()
    for name in ("insert-convolution", "insert-convolution", "add-skip", "reset-weights", "reset-weights"):
        before = {*dna.vertex, *dna.edge}
        dna = apply(name, dna, Random(7))
        assert dna.vertex.keys() - before or name == "add-skip"
    assert len(dna.convs) == 2


@pytest.mark.parametrize("flag", ["inputs_mutable", "outputs_mutable", "properties_mutable"])
def test_what_is_not_mutable_is_left_alone(flag):
    dna = chain(conv("a"), conv("b"))
    dna = dna.edited(put=[skip("s", "input", "v1"), BatchNormRelu(id="v0", **{flag: False})])
    guarded = {
        "inputs_mutable": ["a"],
        "outputs_mutable": ["b"],
        "properties_mutable": ["v0"],
    }[flag]
    rng = Random(0)
    for _ in range(500):
        child = mutate(dna, rng, {name: 1.0 for name in MUTATIONS.names() if name != "reset-weights"}).dna
        for name in guarded:
            assert {**child.edge, **child.vertex}.get(name) == {**dna.edge, **dna.vertex}[name]


def test_ten_thousand_mutations_give_only_valid_dna():
    """50 chains of 200, seeds 0 to 49: see also tests/nn/test_model.py, where they are unfolded."""
    from genepool.dna import decode, encode

    for seed in range(50):
        rng, dna = Random(seed), initial()
        for _ in range(200):
            before = encode(dna)
            child = mutate(dna, rng).dna
            text = encode(child)
            assert encode(dna) == before
            assert decode(text) == child
            assert encode(decode(text)) == text
            assert all(source in child.vertex and target in child.vertex for source, target in child.arcs)
            assert len(set(child.arcs)) == len(child.arcs)
            assert [edge.from_vertex for edge in child.backbone[1:]] == [edge.to_vertex for edge in child.backbone[:-1]]
            assert all(a.to_vertex == b.from_vertex for a, b in pairwise(child.backbone))
            dna = child
