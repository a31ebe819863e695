"""`genepool reach`: the paper's mutations to an architecture, verified by playing the printed numbers back."""

import json
from collections import Counter
from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genepool.dna import PUBLISHED, Shape, codec, initial, requirements, zoo
from genepool.errors import MutationError
from genepool.layers import BatchNormRelu, Conv, Identity, Linear
from genepool.mutations import ELEVEN, Step, apply, follow, reach, same_architecture
from tests.support.in_process import genepool
from tests.support.networks import chain, conv, random_dna

CIFAR = Shape(32, 32, 3)


def steps_of(name):
    result = genepool("reach", name, "--json")
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["verified"] is True
    assert facts["count"] == len(facts["steps"])
    return facts, msgspec.convert(facts["steps"], list[Step])


class Replayed(Random):
    """The numbers of a step for `random()` and `getrandbits()`; everything else is the standard library's."""

    def __init__(self, numbers):
        super().__init__(0)
        self.numbers = list(numbers)

    def random(self):
        return float(self.numbers.pop(0))

    def getrandbits(self, k):
        return self.numbers.pop(0)


@pytest.mark.parametrize(
    ("name", "convolutions"),
    [("all-cnn-c", 8), ("resnet-110", 109), ("wrn-28-10", 25)],
)
def test_the_papers_reachable_networks_are_reached_by_its_eleven_mutations(name, convolutions):
    facts, steps = steps_of(name)
    assert {step.mutation for step in steps} <= set(ELEVEN)
    dna = initial()
    for step in steps:
        source = Replayed(step.numbers)
        dna = apply(step.mutation, dna, source)
        assert source.numbers == []
    target = zoo(name)
    reached, wanted = requirements(dna, CIFAR, 10), requirements(target, CIFAR, 10)
    assert sum(isinstance(edge, Conv) for edge in dna.backbone) == convolutions
    assert dna.in_a_line() == target.in_a_line()
    if name == "wrn-28-10":
        projections = sum(wanted.items[edge.id].parameters for edge in target.skips if isinstance(edge, Conv))
        assert reached.parameters == wanted.parameters - projections
        assert "padded with zeros" in facts["note"]
    else:
        assert (reached.parameters, reached.forward, reached.training) == (
            wanted.parameters, wanted.forward, wanted.training,
        )  # fmt: skip
        assert facts["note"] is None
        assert same_architecture(dna, target)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("all-cnn-c", ("batch normalisation", "fully connected", "padded", "dropout")),
        ("resnet-110", ("pre-activation",)),
        ("wrn-28-10", ("1x1 convolutions",)),
    ],
)
def test_what_differs_from_the_published_network_is_listed(name, words):
    facts, _ = steps_of(name)
    assert len(facts["differences"]) == len(words)
    assert all(word in sentence for word, sentence in zip(words, facts["differences"], strict=True))
    shown = genepool("reach", name).stdout
    assert f"What differs from the published {PUBLISHED[name].title}:" in shown
    assert all(sentence in shown for sentence in facts["differences"])
    assert not steps_of("initial")[0]["differences"]


TABLE_1 = {
    "maxout": "the maximum of several convolutions",
    "network-in-network": "max pooling",
    "deeply-supervised": "losses of their own",
    "highway": "gates multiply",
    "wrn-40-10-dropout": "dropout",
    "densenet": "concatenate",
}
"""The six rows that the paper's table marks with "No"."""


@pytest.mark.parametrize(("name", "reason"), TABLE_1.items())
def test_each_no_of_the_papers_table_has_its_reason(name, reason):
    refused = genepool("reach", name)
    assert refused.returncode == 2
    assert reason in refused.stderr and "cannot reach" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_without_a_name_the_papers_table_is_answered():
    lines = genepool("reach").stdout.splitlines()
    answers = {line.split(":")[0]: line for line in lines if not line.startswith(" ")}
    assert {name for name, line in answers.items() if line.startswith(f"{name}: no.")} == set(TABLE_1)
    assert {name for name, line in answers.items() if line.startswith(f"{name}: yes. What differs")} == {
        "all-cnn-c", "resnet-20", "resnet-110", "wrn-28-10",
    }  # fmt: skip
    facts = json.loads(genepool("reach", "--json").stdout)
    assert {name for name, each in facts.items() if each["obstacle"]} == set(TABLE_1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_whatever_mutations_made_can_be_made_again_from_the_beginning(seed):
    goal = random_dna(seed)
    route = reach(goal)
    assert follow(route.steps) == route.dna
    assert same_architecture(route.dna, goal)
    these, those = (requirements(dna, Shape(16, 16, 3), 10, 2) for dna in (goal, route.dna))
    assert (these.parameters, these.forward) == (those.parameters, those.forward)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([name for name in ELEVEN if name not in ("identity", "reset-weights")]))
def test_an_architecture_that_was_changed_is_another(seed, name):
    dna = random_dna(seed)
    try:
        other = apply(name, dna, Random(seed))
    except MutationError:  # it cannot act here
        return
    figures = [
        (c.parameters, c.forward, c.training)
        for c in (requirements(one, Shape(16, 16, 3), 10, 2) for one in (dna, other))
    ]
    if figures[0] != figures[1]:
        assert not same_architecture(dna, other)
    assert same_architecture(dna, apply("reset-weights", dna, Random(seed)))


def test_numbers_large_and_small_are_reached_too():
    far = chain(
        conv("a", depth_factor=700.0, filter_half_width=20.0, filter_half_height=0.0, stride_scale=5.0),
        conv("b", depth_factor=0.001, filter_half_width=0.4, filter_half_height=3.5, stride_scale=0.4),
    )
    route = reach(far)
    assert same_architecture(route.dna, far)
    assert Counter(step.mutation for step in route.steps)["alter-stride"] == 4


def test_a_number_that_was_changed_leads_elsewhere_or_nowhere():
    goal = zoo("resnet-20")
    steps = list(reach(goal).steps)
    place = next(i for i, step in enumerate(steps) if step.mutation == "alter-number-of-channels")
    steps[place] = replace(steps[place], numbers=(*steps[place].numbers[:-1], 0.5))
    assert not same_architecture(follow(steps), goal)
    steps[place] = replace(steps[place], numbers=(*steps[place].numbers[:-1], 1.5))
    with pytest.raises(ValueError, match=r"no generator gives 1\.5"):
        follow(steps)


def leaky(dna):
    return dna.edited(put=[replace(dna.vertex["v0"], leakiness=0.1)])


def with_projection(dna):
    edge = Conv(id="p", from_vertex="v0", to_vertex="v2", depth_precedence=0, scale_precedence=0)
    return dna.edited(put=[edge])


def with_detour(dna):
    ways = (("d1", "v0", "aside"), ("d2", "aside", "v2"))
    edges = [Identity(id=n, from_vertex=a, to_vertex=b, depth_precedence=0, scale_precedence=0) for n, a, b in ways]
    return dna.edited(put=[Linear(id="aside"), *edges])


def with_last_convolution(dna):
    return dna.edited(put=[Conv(id="trunk", from_vertex="v2", to_vertex="output")])


def with_active_output(dna):
    return dna.edited(put=[BatchNormRelu(id="output")])


def with_a_skip_that_decides(dna):
    return dna.edited(put=[Identity(id="s", from_vertex="v0", to_vertex="v2", depth_precedence=0, scale_precedence=2)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (leaky, "vertex 'v0' has a leaky rectifier"),
        (with_projection, "skip 'p' is a convolution"),
        (with_detour, "vertex 'aside' lies off the backbone"),
        (with_last_convolution, "'trunk' is a convolution into the output"),
        (with_active_output, "output 'output' has batch normalisation"),
        (with_a_skip_that_decides, "decides the size of its vertex 'v2'"),
    ],
)
def test_what_cannot_be_reached_is_told_in_a_sentence(tmp_path, change, reason):
    (tmp_path / "dna.json").write_text(codec.encode(change(chain(conv("a"), conv("b"), conv("c")))))
    refused = genepool("reach", tmp_path / "dna.json")
    assert refused.returncode == 2
    assert reason in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_file_is_reached_and_what_is_neither_file_nor_name_is_told(tmp_path):
    (tmp_path / "dna.json").write_text(codec.encode(random_dna(3)))
    assert genepool("reach", tmp_path / "dna.json").returncode == 0
    for wrong in ("resnet-11", tmp_path / "missing.json", "x" * 5000):
        refused = genepool("reach", wrong)
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr
    assert "resnet-110" in genepool("reach", "resnet-11").stderr


def test_long_sequences_are_cut_short_unless_all_is_asked_for():
    short, everything = (genepool("reach", "resnet-110", *options).stdout for options in ((), ("--all",)))
    assert "223 mutations" in short
    assert "213 more; --all prints them" in short
    numbers = [int(line.split()[0]) for line in everything.splitlines()[2:] if line[:1].isdigit()][:223]
    assert all(b == a + 1 for a, b in pairwise(numbers))
    assert "skip" in everything
