"""Figures in files: the same rows give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from genepool.errors import StorageError, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY = 5000
"""Marks; more are one picture within the SVG, which would take minutes to open otherwise."""


def save(figure: Figure, path: Path) -> None:
    """As PNG, and as SVG beside it."""
    from matplotlib import rc_context

    try:
        with rc_context({"svg.hashsalt": "genepool"}):
            figure.savefig(path.with_suffix(".png"), dpi=150)
            figure.savefig(path.with_suffix(".svg"), dpi=150, metadata={"Date": None})
    except OSError as error:
        raise StorageError(f"The figure cannot be written to '{shown(path)}': {error.strerror or error}.") from None


def time_axis(longest: float) -> tuple[str, float]:
    """The unit for times up to so many seconds, and its length."""
    if longest > 7200:
        return "hours", 3600.0
    return ("minutes", 60.0) if longest > 120 else ("seconds", 1.0)


def percent_axis(axes: Any, values: list[float]) -> None:
    """From a little below the lowest value to a little above the highest, never past 100 %."""
    low, high = min(values, default=0.0), max(values, default=100.0)
    room = max(1.0, 0.06 * (high - low))
    axes.set_ylim(max(0.0, low - room), min(100.5, high + room))
