"""Escapes from local optima, as in the paper: every individual's accuracy, and where settings changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from genepool.analysis import Dot
from genepool.plots.progress import ALIVE, DEAD, RECORD
from genepool.plots.saving import MANY, percent_axis, save, time_axis


class Panel(NamedTuple):
    """One experiment."""

    title: str
    dots: Sequence[Dot]
    marks: Sequence[tuple[float, str]]
    """Seconds, and what changed then."""


def draw_escapes(panels: Sequence[Panel], path: Path) -> None:
    """One panel under the other, on one axis of time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2.9 * max(1, len(panels)) + 0.4), layout="constrained")
    columns = figure.subplots(max(1, len(panels)), 1, sharex=True, squeeze=False)
    unit, scale = time_axis(max((dot.seconds for panel in panels for dot in panel.dots), default=0.0))
    for axes, panel in zip(columns[:, 0], panels, strict=False):
        fitness = [100 * dot.fitness for dot in panel.dots]
        axes.scatter(
            [dot.seconds / scale for dot in panel.dots], fitness,
            s=max(2.0, min(16.0, 4000 / max(1, len(fitness)))), linewidths=0,
            c=[ALIVE if dot.alive else DEAD for dot in panel.dots], rasterized=len(fitness) > MANY,
        )  # fmt: skip
        for seconds, _ in panel.marks:
            axes.axvline(seconds / scale, color=RECORD, linewidth=1.2, linestyle="--")
        percent_axis(axes, fitness)
        axes.set_ylabel("validation\naccuracy (%)")
        axes.set_title(panel.title, loc="left", fontsize=10)
        axes.grid(alpha=0.25)
    columns[-1, 0].set_xlabel(f"time ({unit})")
    columns[-1, 0].set_xlim(left=0)  # not before the last is drawn: the axis is everybody's, and is fixed by this
    for axes, panel in zip(columns[:, 0], panels, strict=False):
        _label(axes, panel, scale)
    save(figure, path)


def _label(axes: Any, panel: Panel, scale: float) -> None:
    """What changed at each line, on the side of it that has more room."""
    middle = sum(axes.get_xlim()) / 2
    for i, (seconds, text) in enumerate(panel.marks):
        x = seconds / scale
        side, away = ("left", 3) if x < middle else ("right", -3)
        axes.annotate(
            text, (x, 0.03 + 0.08 * (i % 2)), xycoords=("data", "axes fraction"), fontsize=8, ha=side,
            xytext=(away, 0), textcoords="offset points", color="#92400e",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )  # fmt: skip
