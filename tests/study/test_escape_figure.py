"""The figure of escapes, whose panels share one axis of time."""

import re

import pytest

from genepool.analysis import Dot
from genepool.study.plots.studies import Panel, draw_escapes

TICK = re.compile(r"<!-- (\d+) -->")
"""matplotlib writes each text of an SVG as a comment before its outlines."""


def panel(end, changes=()):
    dots = [Dot(str(i), "", end * (i + 1) / 10, flops=5, fitness=0.05 * i, alive=i > 7) for i in range(10)]
    return Panel(f"until {end}", dots, changes)


@pytest.mark.parametrize("ends", [(2, 100), (100, 2)], ids=["a short one first", "a long one first"])
def test_experiments_of_different_length_are_all_drawn_to_their_end(ends, tmp_path):
    panels = [panel(end, [(0.9 * end, "mutations 5 instead of 1, for a while")]) for end in ends]
    draw_escapes(panels, tmp_path / "escapes")
    ticks = [int(number) for number in TICK.findall((tmp_path / "escapes.svg").read_text())]
    assert 100 in ticks


def test_a_change_after_the_last_dot_is_within_the_figure(tmp_path):
    draw_escapes([panel(5, [(80, "too late to be of use")])], tmp_path / "escapes")
    assert (tmp_path / "escapes.svg").exists()
