"""Every rule of the encoding, broken once: the message names the place."""

import pytest
from msgspec.structs import replace

from genepool.dna import DNA, initial
from genepool.errors import InvalidDNAError
from genepool.layers import BatchNormRelu, Conv, Identity, Linear
from tests.support.networks import chain, conv

BASE = chain(conv("a"), conv("b"))


def skip(name, source, target, rank=0):
    return Identity(id=name, from_vertex=source, to_vertex=target, depth_precedence=rank, scale_precedence=rank)


BROKEN = {
    "cycle": (dict(put=[skip("s", "v1", "v0")]), "cycle"),
    "loop": (dict(put=[skip("s", "v1", "v1")]), "cycle"),
    "dangling edge": (dict(put=[skip("s", "v0", "nowhere")]), "edge 's' is dangling.*nowhere"),
    "repeated edge": (dict(put=[skip("s", "v0", "v1")]), "two edges lead from 'v0' to 'v1'"),
    "second input": (
        dict(put=[Linear(id="w"), skip("s", "w", "v1")]),
        "'input' and 'w' both have no incoming|'w' and 'input' both have no incoming",
    ),
    "second output": (
        dict(put=[Linear(id="w"), skip("s", "v0", "w", 1)]),
        "both have no outgoing edge; only the output",
    ),
    "lonely vertex": (dict(put=[Linear(id="w")]), "no incoming edge"),
    "no output": (dict(drop=["output", "trunk", "v1", "b", "v0", "a"]), "needs an input and an output"),
    "tied precedence": (dict(put=[skip("s", "input", "v1", 1)]), "vertex 'v1' has two incoming edges of the highest"),
    "strange ID": (dict(put=[Linear(id="a.b")]), "vertex ID 'a.b' is not allowed"),
    "empty ID": (dict(put=[Linear(id="")]), "is not allowed"),
    "ID with a line break": (dict(put=[Linear(id="a\n")]), r"'a\\n' is not allowed"),
    "ID used twice": (dict(put=[Linear(id="a")]), "ID 'a' is used 2 times"),
    "learning rate 0": (dict(learning_rate=0.0), "learning rate is 0"),
    "learning rate NaN": (dict(learning_rate=float("nan")), "learning rate is nan"),
    "infinite learning rate": (dict(learning_rate=float("inf")), "learning rate is inf"),
    "beyond all floats": (dict(put=[skip("s", "input", "v1", 10**400)]), "depth_precedence is far too large"),
    "leaky over 1": (dict(put=[BatchNormRelu(id="v0", leakiness=1.5)]), "vertex 'v0': leakiness is 1.5"),
    "absurd precedence": (dict(put=[skip("s", "input", "v1", -(10**9))]), "edge 's': depth_precedence"),
}
NUMBERS = {
    "depth_factor": (0.0, -1.0, 1e9, float("nan")),
    "filter_half_width": (-0.1, 1e6, float("inf")),
    "filter_half_height": (-1.0, 1e6, float("-inf")),
    "stride_scale": (-0.5, 64.0, float("nan")),
}


@pytest.mark.parametrize(("edit", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_named(edit, message):
    with pytest.raises(InvalidDNAError, match=message):
        BASE.edited(**edit)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NUMBERS.items() for value in values])
def test_an_absurd_number_is_refused_by_name(name, value):
    with pytest.raises(InvalidDNAError, match=f"edge 'a': {name}"):
        BASE.edited(put=[replace(BASE.edge["a"], **{name: value})])


def test_too_many_vertices_are_refused():
    with pytest.raises(InvalidDNAError, match="exceed the limit"):
        chain(*(conv(f"c{i}") for i in range(10_001)))


def test_two_vertices_of_one_id_are_refused():
    with pytest.raises(InvalidDNAError, match="used 2 times"):
        DNA(learning_rate=0.1, vertices=(*BASE.vertices, BASE.vertices[0]), edges=BASE.edges)


def test_a_dna_cannot_be_changed():
    with pytest.raises(AttributeError):
        BASE.learning_rate = 1.0
    with pytest.raises(AttributeError):
        BASE.edge["a"].depth_factor = 2.0


def test_the_order_of_vertices_and_edges_does_not_matter():
    other = DNA(learning_rate=0.1, vertices=BASE.vertices[::-1], edges=BASE.edges[::-1])
    assert other == BASE
    assert hash(other) == hash(BASE)


def test_an_edit_leaves_the_original_alone():
    edited = BASE.edited(put=[skip("s", "input", "v1")], learning_rate=0.2)
    assert chain(conv("a"), conv("b")) == BASE
    assert edited.skips == (edited.edge["s"],)
    assert edited.backbone == BASE.backbone


def test_the_initial_network_has_no_convolution_and_no_hidden_layer():
    dna = initial()
    assert dna.convs == ()
    assert [vertex.id for vertex in dna.vertices] == ["input", "output"]
    assert dna.learning_rate == 0.1


def test_the_backbone_follows_the_highest_precedence():
    dna = BASE.edited(put=[skip("s", "input", "v1"), skip("t", "v0", "output")])
    assert [edge.id for edge in dna.backbone] == ["a", "b", "trunk"]
    assert {edge.id for edge in dna.skips} == {"s", "t"}


def test_an_edge_beside_the_backbone_is_no_skip_unless_it_joins_two_backbone_vertices():
    side = BatchNormRelu(id="side")
    there = Conv(id="there", from_vertex="input", to_vertex="side")
    back = Identity(id="back", from_vertex="side", to_vertex="v1", depth_precedence=0, scale_precedence=0)
    assert BASE.edited(put=[side, there, back]).skips == ()
