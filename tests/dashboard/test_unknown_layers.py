"""What the dashboard's documents say of layers that its process lacks."""

import json

import pytest

from genepool.analysis.reader import BriefBirth, Seen
from genepool.analysis.table import Table
from genepool.dashboard.individual import Image, layers
from genepool.dna import Shape, decode, encode, initial
from genepool.layers import LAYERS, Edge, Filtered
from genepool.population import Individual, State


def test_layers_of_unknown_kinds_are_marked():
    document = json.loads(encode(initial()))
    document["edges"][0] |= {"type": "swirl", "turns": 3}
    first, last = layers(decode(json.dumps(document)), Image(Shape(28, 28, 1), 10), set())
    assert first["known"] and last["known"] and not first["computes"]
    assert last["shape"] is None and last["parameters"] is None
    [edge] = last["edges"]
    assert (edge["known"], edge["computes"], edge["title"], edge["kind"]) == (False, True, "swirl", "swirl")


def test_known_layers_are_not_marked():
    drawn = layers(initial(), Image(Shape(28, 28, 1), 10), set())
    assert all(one["known"] and all(edge["known"] for edge in one["edges"]) for one in drawn)
    assert drawn[1]["shape"] == Shape(28, 28, 1)


def convolutions(*kinds):
    """The number that the dashboard shows of a network with these edges."""
    document = json.dumps({"learning_rate": 0.1, "edges": [{"type": kind} for kind in kinds]})
    table, individual = Table(), Individual(id="a", state=State.ALIVE)
    table.take(Seen(individual, BriefBirth(id="a", dna=document.encode())))
    return table.get(0, "depth")


def test_every_kind_of_convolution_is_counted():
    assert convolutions("conv", "grouped_conv", "depthwise_conv", "separable_conv", "conv") == 5
    assert convolutions("identity", "max_pool", "average_pool") == 0


@pytest.mark.parametrize("is_one", [True, False])
def test_a_plugin_says_whether_its_kind_is_a_convolution(is_one):
    kind = type(Edge)("Swirl", (Edge,), {"IS_CONVOLUTION": is_one}, frozen=True, kw_only=True, tag="swirl")
    LAYERS.register("swirl")(kind)
    try:
        assert convolutions("swirl", "conv") == 1 + is_one
    finally:
        del LAYERS._objects["swirl"], LAYERS._loaded["swirl"]
    assert Filtered.IS_CONVOLUTION  # those that derive from the kinds with filters need not say it


def test_unknown_kinds_count_if_their_name_says_so():
    assert convolutions("deformable_conv", "swirl", "conv") == 2
