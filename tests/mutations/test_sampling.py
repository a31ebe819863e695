"""The draws of the numerical mutations against the distributions that the paper gives.

The test is Kolmogorov and Smirnov's: the largest gap between the share of draws below a value and the probability of
that. With 4,000 draws it exceeds 0.031 once in a thousand times; the seeds are fixed, so a pass stays a pass.
"""

import math
from collections import Counter
from random import Random

import pytest

from genepool.dna import initial
from genepool.mutations import ELEVEN, MUTATIONS, apply, mutate
from tests.support.networks import chain, conv

DRAWS = 4000
LIMIT = 1.95 / math.sqrt(DRAWS)


def draw(name, dna, attribute):
    rng = Random(name)
    return [attribute(apply(name, dna, rng)) for _ in range(DRAWS)]


def gap(values, probability_below):
    ordered = sorted(values)
    return max(
        max(abs(probability_below(v) - i / len(ordered)), abs(probability_below(v) - (i + 1) / len(ordered)))
        for i, v in enumerate(ordered)
    )


def uniform(low, high):
    return lambda value: min(1.0, max(0.0, (value - low) / (high - low)))


def test_the_learning_rate_is_multiplied_by_a_half_to_two_uniform_in_the_logarithm():
    rates = draw("alter-learning-rate", initial(), lambda dna: math.log2(dna.learning_rate / 0.1))
    assert gap(rates, uniform(-1, 1)) < LIMIT


def test_the_body_rate_is_multiplied_by_a_half_to_two_uniform_in_the_logarithm():
    dna = initial(learning_rate=0.1, body_rate=0.2)
    rates = draw("alter-body-rate", dna, lambda dna: math.log2(dna.body_rate / 0.2))
    assert gap(rates, uniform(-1, 1)) < LIMIT
    assert set(draw("alter-body-rate", dna, lambda dna: dna.learning_rate)) == {0.1}


@pytest.mark.parametrize("factor", [1.0, 10.0, 0.37])
def test_channels_are_drawn_between_half_and_twice(factor):
    dna = chain(conv("a", depth_factor=factor))
    factors = draw("alter-number-of-channels", dna, lambda dna: dna.edge["a"].depth_factor)
    assert gap(factors, uniform(factor / 2, factor * 2)) < LIMIT


def test_ten_channels_become_five_to_twenty_and_all_values_occur():
    dna = chain(conv("a", depth_factor=10.0))
    channels = Counter(draw("alter-number-of-channels", dna, lambda dna: dna.edge["a"].depth_out(1)))
    assert set(channels) == set(range(5, 21))


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_strides_move_by_up_to_one_in_the_logarithm(scale):
    dna = chain(conv("a", stride_scale=scale))
    scales = draw("alter-stride", dna, lambda dna: dna.edge["a"].stride_scale)
    assert gap(scales, uniform(scale - 1, scale + 1)) < LIMIT


def test_a_stride_of_one_stays_or_grows():
    scales = draw("alter-stride", chain(conv("a")), lambda dna: dna.edge["a"].stride_scale)
    assert abs(sum(scale == 0 for scale in scales) / DRAWS - 0.5) < 0.03
    assert gap([scale for scale in scales if scale > 0], uniform(0, 1)) < 1.5 * LIMIT


def test_strides_are_powers_of_two():
    strides = draw("alter-stride", chain(conv("a", stride_scale=1.0)), lambda dna: dna.edge["a"].stride)
    assert set(strides) == {1, 2, 4}


@pytest.mark.parametrize("half", [1.0, 3.2])
def test_filters_are_drawn_between_half_and_twice_in_width_or_in_height(half):
    dna = chain(conv("a", filter_half_width=half, filter_half_height=half))
    pairs = draw("filter-size", dna, lambda dna: (dna.edge["a"].filter_half_width, dna.edge["a"].filter_half_height))
    widths, heights = ([p[i] for p in pairs if p[1 - i] == half] for i in (0, 1))
    size = 2 * half + 1
    for halves in (widths, heights):
        assert abs(len(halves) / DRAWS - 0.5) < 0.03
        assert gap([2 * h + 1 for h in halves], uniform(size / 2, size * 2)) < 1.5 * LIMIT
    assert all(width % 2 == 1 for width in draw("filter-size", dna, lambda dna: dna.edge["a"].filter_width))


def test_a_filter_of_one_pixel_never_vanishes():
    dna = chain(conv("a", filter_half_width=0.0, filter_half_height=0.0))
    halves = draw(
        "filter-size", dna, lambda dna: max(dna.edge["a"].filter_half_width, dna.edge["a"].filter_half_height)
    )
    assert min(halves) == 0
    assert abs(sum(half == 0 for half in halves) / DRAWS - 1 / 3) < 0.03  # the size, 0.5 to 2, was drawn below 1


@pytest.mark.parametrize("name", ["alter-number-of-channels", "alter-stride", "filter-size"])
def test_the_convolution_is_chosen_evenly(name):
    dna = chain(*(conv(x) for x in "abcd"))
    rng = Random(name)
    chosen = Counter(
        next((edge.id for edge in apply(name, dna, rng).convs if edge != dna.edge[edge.id]), None) for _ in range(4000)
    )
    chosen.pop(None, None)  # a stride of 1 that stayed
    even = sum(chosen.values()) / 4
    assert all(abs(chosen[x] - even) < 5 * math.sqrt(even) for x in "abcd")


def test_inserted_convolutions_are_as_the_paper_says():
    rng, dna, seen = Random(0), chain(conv("a", depth_factor=5.0)), Counter()
    for _ in range(DRAWS):
        child = apply("insert-convolution", dna, rng)
        [new] = [edge for edge in child.convs if edge.id != "a"]
        assert (new.filter_width, new.filter_height, new.depth_out(7)) == (3, 3, 7)
        seen[new.stride, child.vertex[new.to_vertex].type, new.from_vertex] += 1
    assert set(seen) == {(s, t, v) for s in (1, 2) for t in ("linear", "bn_relu") for v in ("input", "v0")}
    assert all(abs(count - DRAWS / 8) < 5 * math.sqrt(DRAWS / 8) for count in seen.values())


def test_all_mutations_are_equally_likely():
    dna = apply("add-skip", chain(conv("a"), conv("b")), Random(0))  # all eleven can act on this one
    rng = Random(1)
    drawn = Counter(mutate(dna, rng).name for _ in range(11_000))
    assert set(drawn) == set(ELEVEN)
    assert sum((count - 1000) ** 2 / 1000 for count in drawn.values()) < 29.6  # chi square, 10 degrees, 0.1 %


def test_odds_are_obeyed():
    rng = Random(0)
    odds = {"identity": 3.0, "alter-learning-rate": 1.0, "add-skip": 0.0}
    drawn = Counter(mutate(initial(), rng, odds).name for _ in range(4000))
    assert set(drawn) == {"identity", "alter-learning-rate"}
    assert abs(drawn["identity"] / 4000 - 0.75) < 0.03


def test_the_registry_holds_the_eleven():
    assert set(MUTATIONS.names()) >= set(ELEVEN)
    assert len(ELEVEN) == 11 and "alter-body-rate" not in ELEVEN
