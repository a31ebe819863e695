"""A study in one figure: FLOPs spent against the best validation accuracy so far, a colour an arm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from genepool.plots.saving import save

COLOURS = ("#1f5fbf", "#d97706", "#2f855a", "#b83280", "#6b46c1", "#718096", "#c53030", "#0987a0")


class Curve(NamedTuple):
    """One experiment."""

    arm: str
    points: Sequence[tuple[float, float]]
    """FLOPs spent and best validation accuracy so far."""
    test: float
    """Accuracy of what it ended with."""


class Star(NamedTuple):
    """Somebody else's result."""

    label: str
    flops: float
    accuracy: float


def draw_study(curves: Sequence[Curve], stars: Sequence[Star], path: Path) -> None:
    """Each experiment's curve, its end by its test accuracy, and other people's results."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    arms = list(dict.fromkeys(curve.arm for curve in curves))
    for arm, colour in zip(arms, cycle(COLOURS), strict=False):
        label: str | None = arm
        for curve in (curve for curve in curves if curve.arm == arm):
            spent, best = zip(*curve.points, strict=True)
            axes.step(spent, [100 * b for b in best], where="post", color=colour, linewidth=1.2, label=label, alpha=0.8)
            axes.plot([spent[-1]], [100 * curve.test], marker="o", color=colour, markersize=5)
            label = None
    for star in stars:
        place = (star.flops, 100 * star.accuracy)
        axes.plot(*([value] for value in place), marker="*", color="#333333", markersize=10, linestyle="none")
        axes.annotate(
            star.label, place, xytext=(-8, 0), textcoords="offset points", fontsize=7, ha="right", va="center"
        )
    axes.set_xscale("log")
    axes.set_xlabel("FLOPs spent by the whole search")
    axes.set_ylabel("accuracy (%): best validation so far; dot: test")
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    save(figure, path)
