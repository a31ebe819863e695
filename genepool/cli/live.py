"""The live view of a running experiment: a panel on a terminal, lines elsewhere. It only reads."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click
import msgspec

from genepool.cli.text import amount, percent, shares, span

if TYPE_CHECKING:
    from rich.panel import Panel

    from genepool.evolution import Spending
    from genepool.experiment import Experiment
    from genepool.settings import Settings
    from genepool.workers.pool import WorkerPool

EVERY = 10.0
"""Seconds between two lines where the output is not a terminal."""


class Look(Protocol):
    """Shows how things stand, perhaps with a remark."""

    def __call__(self, pool: WorkerPool, remark: str = "") -> None: ...


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to see."""

    seconds: float
    flops: int
    alive: int
    training: int
    dead: int
    trained: int
    a_minute: float
    best: float
    network: str
    last: str
    overhead: float
    """The share of the workers' time that was not spent in steps 2 to n, of late."""
    workers: dict[str, float]
    """The same by worker."""
    escape: str
    """The alarm, or the phase that is to end it."""
    finish: str
    """That nobody is born any more, and what is left for the best."""


class Observer:
    """Keeps looking at one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        from genepool.analysis import History, Stopwatch

        self._experiment = experiment
        self._history = History(experiment.view())
        self._stopwatch = Stopwatch()

    def look(self) -> Standing:
        """How things stand now."""
        from genepool.analysis import RECENT, overhead, overhead_by_worker
        from genepool.experiment import escape_of
        from genepool.population import State

        settings = self._experiment.settings()

        self._history.refresh()
        finished = self._history.finished()
        spent = self._history.spending(also=self._stopwatch.interval())
        states = [row.state for row in self._history.rows.values()]
        best = self._history.best()
        recent = sum(row.result is not None and row.result.finished > time.time() - 60 for row in finished)
        lately = self._history.results(since=time.time() - RECENT)
        window = min(60.0, max(1.0, self._stopwatch.seconds()))
        return Standing(
            seconds=spent.seconds,
            flops=spent.flops,
            alive=states.count(State.ALIVE),
            training=states.count(State.TRAINING),
            dead=states.count(State.DEAD),
            trained=len(finished),
            a_minute=recent * 60 / window,
            best=(best.accuracy or 0.0) if best else 0.0,
            network=best.dna.in_a_line() if best else "",
            last=_happened(finished[-1]) if finished else "",
            overhead=overhead(lately).share,
            workers={who: of.share for who, of in overhead_by_worker(lately).items()},
            escape=escape_of(settings).told(spent),
            finish=finish_told(settings, spent),
        )


def finish_told(settings: Settings, spent: Spending) -> str:
    """What there is to say of the finish: nothing before it begins."""
    from genepool.experiment import budget_of, final_phase_of

    use = budget_of(settings).use(spent)
    if not use.left or not final_phase_of(settings).has_begun(use):
        return ""
    return f"the best is trained on for {span(use.left) if use.unit == 'seconds' else amount(use.left) + 'FLOP'}"


def _happened(row: object) -> str:
    from genepool.analysis import Row

    assert isinstance(row, Row)
    made = " + ".join(row.birth.mutations) or "a trivial individual"
    return f"{made}: {percent(row.accuracy or 0.0)}" + (f" ({row.evaluation.reason})" if row.evaluation.reason else "")


@contextmanager
def live_view(experiment: Experiment) -> Iterator[Look]:
    """Shows the experiment for as long as the context lasts; on standard error, so that results can be piped."""
    observer = Observer(experiment)
    if not sys.stderr.isatty():
        yield _lines(observer)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:

        def look(pool: WorkerPool, remark: str = "") -> None:
            live.update(_panel(str(experiment.path), observer.look(), pool, remark), refresh=True)

        yield look


def _lines(observer: Observer) -> Look:
    due = 0.0

    def look(pool: WorkerPool, remark: str = "") -> None:
        nonlocal due
        if not remark and time.monotonic() < due:
            return
        due = time.monotonic() + EVERY
        now = observer.look()
        click.echo(_line(now, pool), err=True)
        if remark:
            click.echo(remark, err=True)

    return look


def _line(s: Standing, pool: WorkerPool) -> str:
    parts = [
        f"{span(s.seconds)}, {amount(s.flops)}FLOP, {s.alive} alive, {s.training} in training, {s.trained} trained",
        f"{s.a_minute:.0f} a minute, {pool.running()} workers",
        f"overhead {percent(s.overhead)} ({shares(s.workers)})" if s.workers else "",
        f"best {percent(s.best)}: {s.network}" if s.network else "nobody is trained yet",
    ]
    return "; ".join(filter(None, (", ".join(filter(None, parts)), s.finish, s.escape)))


def _panel(title: str, s: Standing, pool: WorkerPool, remark: str) -> Panel:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    restarted = f", {pool.restarts} restarted" if pool.restarts else ""
    for name, value in (
        ("time", span(s.seconds)),
        ("cost", f"{amount(s.flops)}FLOP"),
        ("individuals", f"{s.alive} alive, {s.training} in training, {s.dead} dead; {s.trained} trained so far"),
        ("workers", f"{pool.running()} at work{restarted}; {s.a_minute:.0f} individuals a minute"),
        ("overhead", f"{percent(s.overhead)} of the time; {shares(s.workers)}" if s.workers else ""),
        ("best", f"{percent(s.best)} validation accuracy"),
        ("network", s.network),
        ("last", s.last),
        ("finish", s.finish),
        ("escape", s.escape),
        ("", remark),
    ):
        if value:
            grid.add_row(Text(name, style="dim"), Text(value))
    return Panel(grid, title=f"genepool  {title}", title_align="left")
