"""What the dashboard's documents say of layers that its process lacks."""

import json

from genepool.dashboard.individual import Image, layers
from genepool.dna import Shape, decode, encode, initial


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
