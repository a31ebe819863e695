"""Repeatability and controls, as in the paper: the test accuracy of whoever had the best validation accuracy so far."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from genepool.plots.saving import percent_axis, save, time_axis
from genepool.plots.study import COLOURS

STYLES = ("-", "--", "-.", ":")


class Moment(NamedTuple):
    """An arm at one moment."""

    arm: str
    seconds: float
    mean: float
    """Of the test accuracy over the repeats."""
    deviation: float | None
    """Its standard deviation; None for a single experiment."""
    repeats: int


def draw_repeatability(rows: Sequence[Moment], path: Path) -> None:
    """A curve an arm, with two standard deviations on both sides where there are repeats."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.add_subplot()
    unit, scale = time_axis(max((row.seconds for row in rows), default=0.0))
    arms = dict.fromkeys(row.arm for row in rows)
    for number, (arm, colour, style) in enumerate(zip(arms, cycle(COLOURS), cycle(STYLES), strict=False)):
        curve = [row for row in rows if row.arm == arm]
        times = [row.seconds / scale for row in curve]
        label = f"{arm} (n = {curve[-1].repeats})"
        axes.plot(times, [100 * row.mean for row in curve], color=colour, linestyle=style, linewidth=1.6, label=label)
        if all(row.deviation is not None for row in curve):
            low = [100 * max(0.0, row.mean - 2 * (row.deviation or 0.0)) for row in curve]
            high = [100 * min(1.0, row.mean + 2 * (row.deviation or 0.0)) for row in curve]
            axes.fill_between(times, low, high, color=colour, alpha=0.08 if number else 0.22, linewidth=0)
    percent_axis(axes, [100 * row.mean for row in rows])
    axes.set_xlim(left=0)
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("test accuracy (%) of the best by validation")
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.set_title("mean ± 2 standard deviations", loc="left", fontsize=10)
    save(figure, path)
