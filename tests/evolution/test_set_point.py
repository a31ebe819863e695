"""Which deaths and births are left out to keep the population's size."""

from collections import Counter
from random import Random

import pytest

from genepool.evolution import Decision, damped
from genepool.evolution.set_point import floor, paper
from genepool.population import Census


def census(living, training=0):
    return Census(alive=living - training, training=training)


@pytest.mark.parametrize(
    ("living", "decision"),
    [
        (2, Decision(kill=False, reproduce=True)),
        (9, Decision(kill=False, reproduce=True)),
        (10, Decision(kill=True, reproduce=True)),
        (11, Decision(kill=True, reproduce=False)),
        (50, Decision(kill=True, reproduce=False)),
    ],
)
def test_the_papers_rule_kills_when_full_and_then_reproduces_when_there_is_room(living, decision):
    assert paper(census(living), 10, Random(0)) == decision


def test_the_damped_rule_does_both_when_the_size_is_right():
    rng = Random(0)
    assert {damped(census(10, 3), 10, rng) for _ in range(100)} == {Decision(kill=True, reproduce=True)}


@pytest.mark.parametrize(("living", "left_out"), [(90, "kill"), (110, "reproduce")])
def test_the_damped_rule_corrects_in_proportion_to_the_number_of_workers(living, left_out):
    rng = Random(1)
    decisions = Counter(damped(census(living, training=39), 100, rng) for _ in range(4000))
    both = decisions.pop(Decision(kill=True, reproduce=True))
    [(other, count)] = decisions.items()
    assert getattr(other, left_out) is False
    assert abs(count / (count + both) - 10 / 40) < 0.03


def test_far_from_the_set_point_the_damped_rule_corrects_at_every_step():
    assert damped(census(2, 1), 1000, Random(0)) == Decision(kill=False, reproduce=True)
    assert damped(census(3000, 1), 1000, Random(0)) == Decision(kill=True, reproduce=False)


def test_the_floor_is_half_the_wanted_size_and_never_below_two():
    assert [floor(wanted) for wanted in (2, 3, 10, 1000)] == [2, 2, 5, 500]
