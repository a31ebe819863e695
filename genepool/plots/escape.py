"""Escapes from local optima, as in the paper: every individual's accuracy, and where settings changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
        for i, (seconds, text) in enumerate(panel.marks):
            axes.axvline(seconds / scale, color=RECORD, linewidth=1.2, linestyle="--")
            axes.annotate(
                text, (seconds / scale, 0.03 + 0.08 * (i % 2)), xycoords=("data", "axes fraction"), fontsize=8,
                xytext=(3, 0), textcoords="offset points", color="#92400e",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            )  # fmt: skip
        percent_axis(axes, fitness)
        axes.set_ylabel("validation\naccuracy (%)")
        axes.set_title(panel.title, loc="left", fontsize=10)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
    columns[-1, 0].set_xlabel(f"time ({unit})")
    save(figure, path)
