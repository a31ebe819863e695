"""The short way to a checked DNA, against the long one: what one look calls usual keeps every rule, in its place."""

import random

import pytest
from msgspec.structs import replace

from genepool.dna import DNA, graph
from genepool.errors import InvalidDNAError
from genepool.layers import BatchNormRelu
from tests.support.networks import random_dna

SEEDS = 3000
NAMES = ("input", "output", "v0", "", "a\n", "é")
NUMBERS = (0.0, 1.0, -1.0, 0.5, 1e9, float("nan"), float("inf"))


def spoilt(dna, rng):
    """The parts of a DNA with one thing changed, for the better or for the worse."""
    vertices, edges, rate = list(dna.vertices), list(dna.edges), dna.learning_rate
    place = rng.randrange(len(edges))
    names = [*NAMES, *(thing.id for thing in (*vertices, *edges))]
    match rng.randrange(9):
        case 0:
            rate = rng.choice(NUMBERS)
        case 1:
            rng.shuffle(rng.choice((vertices, edges)))
        case 2:
            del edges[place]
        case 3:
            del vertices[rng.randrange(len(vertices))]
        case 4:
            edges.append(replace(edges[place], id=rng.choice(names)))
        case 5:
            edges[place] = replace(edges[place], from_vertex=rng.choice(names))
        case 6:
            edges[place] = replace(edges[place], to_vertex=rng.choice(names))
        case 7:
            rank = rng.choice((-1, 0, 1, 2, 10**9))
            edges[place] = replace(edges[place], **{rng.choice(("depth_precedence", "scale_precedence")): rank})
        case 8:
            number = rng.randrange(len(vertices))
            vertices[number] = BatchNormRelu(id=rng.choice(names), leakiness=rng.choice(NUMBERS))
    return dict(vertices=tuple(vertices), edges=tuple(edges), learning_rate=rate)


def made(parts):
    try:
        dna = DNA(**parts)
    except InvalidDNAError as error:
        return str(error)
    return dna.vertices, dna.edges, dna.order


def test_the_short_way_never_decides_otherwise_than_the_long_one(monkeypatch):
    rng = random.Random(5)
    all_parts = []
    for seed in range(SEEDS):
        dna = random_dna(seed % 300, longest=12)
        all_parts += [dict(vertices=dna.vertices, edges=dna.edges, learning_rate=dna.learning_rate), spoilt(dna, rng)]
    seen = []

    def looked(dna, look=graph.usual_order):
        seen.append(look(dna))
        return seen[-1]

    monkeypatch.setattr(graph, "usual_order", looked)
    short = [made(parts) for parts in all_parts]
    monkeypatch.setattr(graph, "usual_order", lambda dna: None)
    assert [made(parts) for parts in all_parts] == short
    # Enough of each kind to mean something: usual, unusual but allowed, refused.
    refused = sum(isinstance(one, str) for one in short)
    usual = sum(order is not None for order in seen)
    assert min(usual, len(short) - refused - usual, refused) > SEEDS / 20


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("name", ["depth_factor", "filter_half_width", "filter_half_height", "stride_scale"])
def test_a_number_out_of_bounds_is_never_usual(name, value, monkeypatch):
    dna = next(dna for dna in map(random_dna, range(99)) if dna.convs and graph.usual_order(dna))
    edges = tuple(replace(edge, **{name: value}) if edge is dna.convs[0] else edge for edge in dna.edges)
    parts = dict(vertices=dna.vertices, edges=edges, learning_rate=dna.learning_rate)
    short = made(parts)
    monkeypatch.setattr(graph, "usual_order", lambda dna: None)
    assert repr(made(parts)) == repr(short)
