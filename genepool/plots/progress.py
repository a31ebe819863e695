"""Progress of an experiment, as the paper's first figure: one dot an individual, time against accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genepool.analysis import Row
from genepool.errors import StorageError, shown
from genepool.population import State

ALIVE, DEAD, RECORD = "#1f5fbf", "#b0b0b0", "#d97706"


def draw_progress(rows: Sequence[Row], path: Path) -> None:
    """Draws the finished individuals, which stand in the order in which they became alive."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    hours, accuracy, alive = _points(rows)
    unit, scale = ("hours", 3600) if hours and hours[-1] > 7200 else ("minutes", 60)
    times = [seconds / scale for seconds in hours]
    size = max(2.0, min(24.0, 6000 / max(1, len(rows))))
    for label, colour, which in (("dead", DEAD, False), ("alive", ALIVE, True)):
        chosen = [i for i, a in enumerate(alive) if a is which]
        axes.scatter(
            [times[i] for i in chosen], [100 * accuracy[i] for i in chosen],
            s=size, c=colour, label=label, linewidths=0, zorder=3 if which else 2,
        )  # fmt: skip
    axes.step(times, _records(rows), where="post", color=RECORD, linewidth=1.2, label="best so far", zorder=1)
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("validation accuracy (%)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False)
    axes.set_title(f"{len(rows)} individuals", loc="left", fontsize=10)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise StorageError(f"The figure cannot be written to '{shown(path)}': {error.strerror or error}.") from None


def _points(rows: Sequence[Row]) -> tuple[list[float], list[float], list[bool]]:
    """Seconds since the first training began, accuracy, and whether it is alive."""
    results = [row.result for row in rows if row.result is not None]
    start = min((r.finished - float(r.metrics.get("seconds", 0.0)) for r in results), default=0.0)
    return (
        [result.finished - start for result in results],
        [row.accuracy or 0.0 for row in rows if row.result is not None],
        [row.state is State.ALIVE for row in rows if row.result is not None],
    )


def _records(rows: Sequence[Row]) -> list[float]:
    """The accuracy of the fittest so far."""
    fitness, accuracy, records = float("-inf"), 0.0, []
    for row in rows:
        if row.fitness is not None:
            if row.fitness > fitness:
                fitness, accuracy = row.fitness, row.accuracy or 0.0
            records.append(100 * accuracy)
    return records
