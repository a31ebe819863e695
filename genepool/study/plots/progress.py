"""The progress of an experiment, as in the paper's Figure 1: one dot per individual, time against accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from genepool.analysis import Annotation, Row
from genepool.population import State
from genepool.study.plots import ALIVE, DEAD, NOTE, RECORD, add_label, save_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

LEVELS = 18
"""The number of lines of labels that fit into the figure."""


def draw_progress(rows: Sequence[Row], path: Path, annotations: Sequence[Annotation] = (), label: str = "") -> None:
    """Draw the individuals in the order in which they became alive, and the changes of settings."""
    save_png(progress_figure(rows, annotations, label), path)


def progress_figure(rows: Sequence[Row], annotations: Sequence[Annotation] = (), label: str = "") -> Figure:
    """The figure itself."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    add_label(figure, label)
    axes = figure.add_subplot()
    start = _start(rows)
    hours, accuracy, alive = _points(rows, start)
    unit, scale = ("hours", 3600) if hours and hours[-1] > 7200 else ("minutes", 60)
    times = [seconds / scale for seconds in hours]
    size = max(2.0, min(24.0, 6000 / max(1, len(rows))))
    for state, colour, which in (("dead", DEAD, False), ("alive", ALIVE, True)):
        chosen = [i for i, a in enumerate(alive) if a is which]
        axes.scatter(
            [times[i] for i in chosen], [100 * accuracy[i] for i in chosen],
            s=size, c=colour, label=state, linewidths=0, zorder=3 if which else 2,
        )  # fmt: skip
    axes.step(times, _records(rows), where="post", color=RECORD, linewidth=1.2, label="best so far", zorder=1)
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("validation accuracy (%)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False)
    axes.set_title(f"{len(rows)} individuals", loc="left", fontsize=10)
    if annotations:
        _annotate(figure, axes, [(max(0.0, note.time - start) / scale, note.label) for note in annotations])
    return figure


def _annotate(figure: Figure, axes: Axes, notes: Sequence[tuple[float, str]]) -> None:
    """Draw a dashed line and a label for each, at the first height at which the label overlaps no other."""
    axes.set_xlim(right=max(axes.get_xlim()[1], 1.02 * max(x for x, _ in notes)))
    for x, _ in notes:
        axes.axvline(x, color=NOTE, linestyle="--", linewidth=0.9, zorder=1)
    figure.draw_without_rendering()  # fixes the axes, which the widths of labels depend on
    left, right = axes.get_xlim()
    taken: list[BboxBase] = []
    for x, label in notes:
        side = "right" if x > (left + right) / 2 else "left"
        text = axes.text(
            x, 1.0, f" {label} ", fontsize=7, color=NOTE, ha=side, va="top", transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        for level in range(LEVELS):
            text.set_y(0.99 - level / LEVELS)
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
        else:  # too many to read; the line stays
            text.remove()


def _start(rows: Sequence[Row]) -> float:
    """The wall clock time at which the first training started."""
    results = [row.result for row in rows if row.result is not None]
    return min((r.finished - float(r.metrics.get("seconds", 0.0)) for r in results), default=0.0)


def _points(rows: Sequence[Row], start: float) -> tuple[list[float], list[float], list[bool]]:
    """Seconds since the start, accuracy, and whether it is alive."""
    results = [row.result for row in rows if row.result is not None]
    return (
        [result.finished - start for result in results],
        [row.accuracy or 0.0 for row in rows if row.result is not None],
        [row.state is State.ALIVE for row in rows if row.result is not None],
    )


def _records(rows: Sequence[Row]) -> list[float]:
    """The accuracy of the fittest individual so far."""
    fitness, accuracy, records = float("-inf"), 0.0, []
    for row in rows:
        if row.fitness is not None:
            if row.fitness > fitness:
                fitness, accuracy = row.fitness, row.accuracy or 0.0
            records.append(100 * accuracy)
    return records
