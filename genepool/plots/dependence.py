"""Dependence on one setting, as in the paper: a circle an experiment."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from genepool.plots.saving import percent_axis, save
from genepool.plots.study import COLOURS


class Circle(NamedTuple):
    """One experiment."""

    value: float
    """Of the setting."""
    seed: int
    validation: float
    test: float


def draw_dependence(rows: Sequence[Circle], setting: str, path: Path) -> None:
    """Test accuracy of the best by validation against the setting; the line joins the means."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.add_subplot()
    values = sorted({row.value for row in rows})
    means = [100 * statistics.fmean(row.test for row in rows if row.value == value) for value in values]
    axes.plot(values, means, color=COLOURS[5], linewidth=1.0, zorder=1, label="mean")
    axes.scatter(
        [row.value for row in rows], [100 * row.test for row in rows],
        s=36, facecolors="none", edgecolors=COLOURS[0], linewidths=1.3, label="one experiment",
    )  # fmt: skip
    if values and values[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    percent_axis(axes, [100 * row.test for row in rows])
    axes.set_xlabel(setting.replace("_", " "))
    axes.set_ylabel("test accuracy (%) of the best by validation")
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    save(figure, path)
