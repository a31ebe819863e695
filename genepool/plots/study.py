"""A study in one figure: FLOPs spent against the best validation accuracy so far, a colour and a line an arm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from statistics import mean
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


FEW = 4
"""Arms whose experiments can all be told apart; of more, the mean of each is drawn."""


def draw_study(curves: Sequence[Curve], stars: Sequence[Star], path: Path) -> None:
    """Each experiment's curve, or each arm's mean, every end by its test accuracy, and other people's results."""
    from matplotlib.figure import Figure

    arms: dict[str, list[Curve]] = {}
    for curve in curves:
        arms.setdefault(curve.arm, []).append(curve)
    many = len(arms) > FEW
    figure = Figure(figsize=(10 if many else 8, 5), layout="constrained")
    axes = figure.add_subplot()
    styles = product(("-", "--", ":"), COLOURS)
    for (arm, own), (style, colour) in zip(arms.items(), cycle(styles), strict=False):
        label = f"{arm}: {100 * mean(curve.test for curve in own):.1f} %" if many else arm
        for points in [_together(own)] if many else [curve.points for curve in own]:
            spent, best = zip(*points, strict=True)
            accuracy = [100 * value for value in best]
            axes.step(spent, accuracy, style, where="post", color=colour, linewidth=1.3, label=label, alpha=0.85)
            label = "_"  # once an arm; matplotlib leaves names with this beginning out of the legend
        for curve in own:
            axes.plot([curve.points[-1][0]], [100 * curve.test], marker="o", color=colour, markersize=5)
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
    if many:
        figure.legend(
            loc="outside right upper", frameon=False, fontsize=8, title="mean test accuracy", title_fontsize=8
        )
    else:
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    save(figure, path)


def _together(curves: Sequence[Curve]) -> list[tuple[float, float]]:
    """The mean of what each had reached, wherever one of them changes; where not all have begun there is none."""
    steps = sorted({spent for curve in curves for spent, _ in curve.points})
    begun = max(curve.points[0][0] for curve in curves)
    return [(at, mean(_reached(curve, at) for curve in curves)) for at in steps if at >= begun]


def _reached(curve: Curve, at: float) -> float:
    return next(best for spent, best in reversed(curve.points) if spent <= at)
