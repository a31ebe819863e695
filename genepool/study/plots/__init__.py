"""Figures, drawn from rows of the analysis. Only this folder imports matplotlib.

experiment   one experiment: its individuals over time, the ancestors of the best, the ancestry of all
studies      the figures of studies and of simulated clusters
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genepool.errors import StorageError, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ALIVE", "DEAD", "MANY", "NOTE", "RECORD", "new_figure", "percent_axis", "save", "save_png", "time_axis"]

ALIVE, DEAD, RECORD, NOTE = "#1f5fbf", "#b0b0b0", "#d97706", "#7a1f5f"
MANY = 5000  # from this number of dots on, the SVG has them as one image; it would take minutes to open otherwise
CHARACTERS = 17  # of a label, per inch


def new_figure(width: float, height: float, label: str = "") -> Figure:
    """An empty figure; the label above everything else says under which rules the experiments ran."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    if lines := textwrap.wrap(label, int(CHARACTERS * width), break_on_hyphens=False):
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=7, color="#4a5568")
    return figure


def save_png(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise StorageError(f"The figure cannot be written to '{shown(path)}': {error.strerror or error}.") from None


def save(figure: Figure, path: Path) -> None:
    """Write the figure as PNG and as SVG; the same rows give the same bytes."""
    from matplotlib import rc_context

    save_png(figure, path.with_suffix(".png"))
    with rc_context({"svg.hashsalt": "genepool"}):
        figure.savefig(path.with_suffix(".svg"), dpi=150, metadata={"Date": None})


def time_axis(longest: float) -> tuple[str, float]:
    """The unit for times up to this many seconds, and its length in seconds."""
    if longest > 7200:
        return "hours", 3600.0
    return ("minutes", 60.0) if longest > 120 else ("seconds", 1.0)


def percent_axis(axes: Any, values: list[float]) -> None:
    """Fit the axis to the values, with a margin, but never past 100 %."""
    low, high = min(values, default=0.0), max(values, default=100.0)
    room = max(1.0, 0.06 * (high - low))
    axes.set_ylim(max(0.0, low - room), min(100.5, high + room))
