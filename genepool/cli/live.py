"""The live view of a running experiment: a panel on a terminal, otherwise lines. It only reads."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from genepool.cli.text import amount, brief, percent, shares, span
from genepool.errors import GenepoolError

if TYPE_CHECKING:
    from rich.panel import Panel

    from genepool.analysis import Row, Status
    from genepool.evolution import BudgetUse
    from genepool.experiment import Experiment
    from genepool.workers import WorkerPool

EVERY = 10.0  # seconds between two lines if the output is not a terminal


class Look(Protocol):
    """Shows the status, perhaps with a remark."""

    def __call__(self, pool: WorkerPool, remark: str = "") -> None: ...


class LiveStatus:
    def __init__(self, experiment: Experiment) -> None:
        from genepool.analysis import Stopwatch

        self._experiment, self._observer = experiment, experiment.observe()
        self._stopwatch = Stopwatch()

    def status(self) -> Status:
        self._observer.refresh()
        return self._experiment.status(self._observer, also=self._stopwatch.interval())

    def last(self, status: Status) -> str:
        """The individual that finished last."""
        try:
            return described(self._observer.row(status.last)) if status.last else ""
        except GenepoolError:  # its record cannot be read at present
            return ""


def described(row: Row) -> str:
    """An individual in a few words."""
    made = " + ".join(row.birth.mutations) or "a trivial individual"
    return f"{made}: {percent(row.accuracy or 0.0)}" + (f" ({row.evaluation.reason})" if row.evaluation.reason else "")


def final_phase_text(use: BudgetUse | None) -> str:
    """What is left for the best individual; empty before the final phase."""
    if use is None:
        return ""
    left = span(use.left) if use.unit == "seconds" else amount(use.left) + "FLOP"
    return f"final phase, {left} left for the best"


@contextmanager
def live_view(experiment: Experiment) -> Iterator[Look]:
    """Show the experiment while the context lasts; on standard error, so that results can be piped."""
    live = LiveStatus(experiment)
    if not sys.stderr.isatty():
        yield _lines(live)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as shown:

        def look(pool: WorkerPool, remark: str = "") -> None:
            status = live.status()
            shown.update(_panel(str(experiment.path), status, live.last(status), pool, remark), refresh=True)

        yield look


def _lines(live: LiveStatus) -> Look:
    due = 0.0

    def look(pool: WorkerPool, remark: str = "") -> None:
        nonlocal due
        if not remark and time.monotonic() < due:
            return
        due = time.monotonic() + EVERY
        click.echo(_line(live.status(), pool), err=True)
        if remark:
            click.echo(remark, err=True)

    return look


def _overhead(s: Status) -> tuple[str, str]:
    workers = {who: total.share for who, total in s.recent_workers.items()}
    return percent(s.recent_overhead.share), shares(workers)


def _line(s: Status, pool: WorkerPool) -> str:
    overhead, by_worker = _overhead(s)
    parts = [
        f"{span(s.spent.seconds)}, {amount(s.spent.flops)}FLOP, {s.census.alive} alive, "
        f"{s.census.training} in training, {s.spent.individuals} trained",
        f"{s.rate.individuals_per_minute:.0f} per minute, {pool.running()} workers",
        f"overhead {overhead} ({by_worker})" if by_worker else "",
        f"best {percent(s.best.accuracy)}: {brief(s.best.network)}" if s.best else "no individual is trained yet",
    ]
    return "; ".join(filter(None, (", ".join(filter(None, parts)), final_phase_text(s.final_phase), s.escape)))


def _panel(title: str, s: Status, last: str, pool: WorkerPool, remark: str) -> Panel:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    restarted = f", {pool.restarts} restarted" if pool.restarts else ""
    population = f"{s.census.alive} alive, {s.census.training} in training, {s.census.dead} dead"
    overhead, by_worker = _overhead(s)
    for name, value in (
        ("time", span(s.spent.seconds)),
        ("spent", f"{amount(s.spent.flops)}FLOP"),
        ("individuals", f"{population}; {s.spent.individuals} trained so far"),
        ("workers", f"{pool.running()} running{restarted}; {s.rate.individuals_per_minute:.0f} individuals per minute"),
        ("overhead", f"{overhead} of the time; {by_worker}" if by_worker else ""),
        ("best", f"{percent(s.best.accuracy if s.best else 0.0)} validation accuracy"),
        ("network", brief(s.best.network) if s.best else ""),
        ("last", last),
        ("final phase", final_phase_text(s.final_phase)),
        ("escape", s.escape),
        ("", remark),
    ):
        if value:
            grid.add_row(Text(name, style="dim"), Text(value))
    return Panel(grid, title=f"genepool  {title}", title_align="left")
