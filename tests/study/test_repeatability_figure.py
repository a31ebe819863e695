"""The figure of repeatability: bands, the inset of the paper's Figure 2, the label, and the paper's own points."""

import math

import pytest

from genepool.study import read_plan
from genepool.study.plots import studies
from genepool.study.plots.studies import Moment, Published, draw_repeatability

ARMS = {"evolution": 0.84, "random selection": 0.74, "no inheritance": 0.79}


def rows(ends):
    return [
        Moment(arm, float(second), end * (1 - math.exp(-(second + 5) / 20)), 0.02, 5)
        for arm, end in ends.items()
        for second in range(101)
    ]


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(studies, "save", lambda figure, path: figures.append(figure))

    def draw(*args):
        draw_repeatability(args[0], tmp_path / "x.png", *args[1:])
        return figures[-1]

    return draw


@pytest.mark.parametrize("ends", [ARMS, {"evolution": 0.5}, {"a": 0.9, "b": 0.1}])
def test_the_inset_magnifies_the_end_of_the_best_curve_with_its_band(ends, drawn):
    [axes] = drawn(rows(ends)).axes
    [inset] = axes.child_axes
    (low, high), (bottom, top) = inset.get_ylim(), axes.get_ylim()
    assert inset.get_xlim() == (60, 100) and high - low < 0.62 * (top - bottom)
    best = 100 * max(ends.values()) * (1 - math.exp(-105 / 20))
    assert low < best < best + 4 <= high + 0.01, "with two standard deviations above"


def test_the_label_and_the_papers_points_are_in_the_figure(drawn):
    plan = read_plan("repeatability")
    own, paper = drawn(rows(ARMS), plan.label()), [
        Published(each.label, [(hours / each.hours, best) for hours, best in each.points], each.deviation)
        for each in plan.curves
    ]  # fmt: skip
    assert "preset laptop" in own.get_suptitle() and "seconds" in own.axes[0].get_xlabel()
    both = drawn(rows(ARMS), plan.label(), paper)
    assert "% of the run" in both.axes[0].get_xlabel()
    shown = {text.get_text() for text in both.legends[0].get_texts()}
    assert {"the paper: evolution", "the paper: no inheritance", "the paper: random selection"} <= shown
