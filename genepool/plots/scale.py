"""What more workers bring: idle share and steps an hour of simulated clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genepool.errors import StorageError, shown
from genepool.simulation import Outcome

STEPS, IDLE, IDEAL = "#1f5fbf", "#d97706", "#b0b0b0"


def draw_scale(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws clusters of different sizes, in the order of their workers; the grey line is the first one's, scaled up."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    workers = [outcome.workers for outcome in outcomes]
    steps = [outcome.steps_an_hour for outcome in outcomes]
    ideal = [steps[0] * count / workers[0] for count in workers]
    axes.loglog(workers, ideal, color=IDEAL, linestyle="--", linewidth=1.2, label="as many times the smallest")
    axes.loglog(workers, steps, color=STEPS, marker="o", label="steps an hour")
    axes.set_xlabel("workers")
    axes.set_ylabel("steps in a simulated hour")
    axes.grid(alpha=0.25)
    other = axes.twinx()
    idle = [100 * outcome.idle for outcome in outcomes]
    other.plot(workers, idle, color=IDLE, marker="s", label="idle")
    other.set_ylabel("workers' time idle (%)")
    other.set_ylim(0, max(1.0, 1.2 * max(idle)))
    lines = [*axes.get_lines(), *other.get_lines()]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="upper left", frameon=False)
    axes.set_title("simulated clusters, four individuals for each worker", loc="left", fontsize=10)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise StorageError(f"The figure cannot be written to '{shown(path)}': {error.strerror or error}.") from None
