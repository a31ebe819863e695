"""The status of an experiment: what it has spent and reached, how fast it goes, what is left of its budget; and its
workers: what each trains and since when, and which have been silent for too long.

Heartbeats are compared with themselves on this process's own clock, as workers do; the time of a file is only shown,
for the silence before this process started to observe.
"""

import time
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from genepool.analysis.observer import Observer
from genepool.analysis.spending import (
    RECENT,
    Interval,
    Overhead,
    overhead,
    overhead_by_worker,
    spending,
    unfinished_flops,
)
from genepool.analysis.table import Progress, Table
from genepool.evolution import Budget, BudgetUse, Escape, FinalPhase, Spending
from genepool.population import FREE, HEARTBEAT, INFO, Census, HeartbeatMonitor, Individual

ExperimentState = Literal["running", "idle", "finished", "empty", "reading", "unreadable"]
MOMENT = 5.0  # seconds; a worker that has just finished an individual will soon start the next
QUIET = 30.0  # seconds; clocks differ a little, and heartbeats are late on a busy machine
_MOST = 2000
_MOST_TIMES = 100


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force that a status depends on."""

    budget: Budget = Budget()
    escape: Escape = Escape()
    final_phase: FinalPhase = FinalPhase()


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Averages over the last minutes."""

    individuals_per_minute: float = 0.0
    flops_per_second: float = 0.0


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The living individual of highest fitness."""

    index: int  # its row number
    id: str
    fitness: float
    accuracy: float
    network: str  # the architecture in one line


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """Each new best fitness and how far the experiment was then; the last entry is the latest individual."""

    individuals: list[int]
    seconds: list[float]
    flops: list[float]
    best: list[float]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status at one moment."""

    state: ExperimentState  # `idle`: no worker is active; `empty`: there are no individuals yet
    trouble: str  # why the directory cannot be read at present
    now: float
    census: Census
    spent: Spending  # its seconds include trainings in progress
    rate: Rate
    overhead: Overhead
    recent_overhead: Overhead  # that of the last minutes
    workers: dict[str, Overhead]
    recent_workers: dict[str, Overhead]
    best: Best | None
    records: Records
    last: str  # the ID of the individual that finished last
    last_finished: float | None
    over: str | None  # why the experiment is over
    seconds_left: float | None  # the time until the first limit is reached at the present rate
    final_phase: BudgetUse | None  # what is left of the budget, if the rest of it is for the best individual
    escape: str  # the alarm, or the phase of more mutations that is in force


def status_of(observer: Observer, terms: Terms, *, also: Interval | None = None) -> Status:
    """The status as of the observer's last refresh, with the time of a run in progress if the caller knows it."""
    now = time.time()
    working = at_work(observer, now)
    with observer.lock:
        table, census = observer.table, observer.census
        spent = spending(table, also, unfinished_flops(table, observer.executed, working))
        progress = table.progress()
        rate, index, recent = _rate(table, progress, now), table.best(), now - RECENT
        totals = overhead(table), overhead(table, recent), overhead_by_worker(table), overhead_by_worker(table, recent)
        last = int(progress.rows[-1]) if len(progress.rows) else None
        last_finished = None if last is None else float(progress.finished[-1])
    since = min(working.values(), default=None)
    if since is not None and also is None:
        # The final training of the best may take two fifths of the time, and has no record until it ends.
        running = max(0.0, now - max(since, last_finished or 0.0))
        spent = msgspec.structs.replace(spent, seconds=spent.seconds + running)
    is_active = since is not None or (last_finished is not None and now - last_finished < MOMENT)
    over, use = terms.budget.over(spent), terms.budget.use(spent)
    state = _state(observer, census, over, is_active)
    return Status(
        state=state, trouble=observer.trouble, now=now, census=census, spent=spent, rate=rate,
        overhead=totals[0], recent_overhead=totals[1], workers=totals[2], recent_workers=totals[3],
        best=None if index is None else _best(observer, index), records=records_of(progress),
        last="" if last is None else table.ids[last], last_finished=last_finished, over=over,
        seconds_left=_seconds_left(terms.budget, spent, rate) if state == "running" else None,
        final_phase=use if state == "running" and use.left and terms.final_phase.has_begun(use) else None,
        escape=terms.escape.message(spent),
    )  # fmt: skip


def _rate(table: Table, progress: Progress, now: float) -> Rate:
    if not len(progress.rows):
        return Rate()
    recent = progress.rows[progress.finished > now - RECENT]
    began = float((progress.finished - table.column("seconds")[progress.rows]).min())
    window = max(1.0, min(RECENT, now - began))
    flops = float(table.column("flops")[recent].sum())
    return Rate(individuals_per_minute=len(recent) * 60 / window, flops_per_second=flops / window)


def _seconds_left(budget: Budget, spent: Spending, rate: Rate) -> float | None:
    guesses = [budget.time - spent.seconds] if budget.time else []
    if budget.individuals and rate.individuals_per_minute > 0:
        guesses.append((budget.individuals - spent.individuals) * 60 / rate.individuals_per_minute)
    if budget.flops and rate.flops_per_second > 0:
        guesses.append((budget.flops - spent.flops) / rate.flops_per_second)
    return max(0.0, min(guesses)) if guesses else None


def _best(observer: Observer, index: int) -> Best:
    table, identity = observer.table, observer.table.ids[index]
    fitness, accuracy = table.get(index, "fitness"), table.get(index, "accuracy")
    return Best(index=index, id=identity, fitness=fitness, accuracy=accuracy, network=observer.network(identity))


def records_of(progress: Progress) -> Records:
    chosen = progress.is_record.copy()
    chosen[-1:] = True
    return Records(
        individuals=(np.nonzero(chosen)[0] + 1).tolist(),
        seconds=np.round(progress.elapsed[chosen], 3).tolist(),
        flops=progress.spent[chosen].tolist(),
        best=np.round(progress.best[chosen], 6).tolist(),
    )


def _state(observer: Observer, census: Census, over: str | None, is_active: bool) -> ExperimentState:
    if observer.trouble:
        return "unreadable"
    if over is not None and not census.training:
        return "finished"
    if not len(observer.table):
        return "reading" if observer.reading else "empty"
    return "running" if is_active else "idle"


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One active worker."""

    who: str
    host: str
    process: int | None
    started: float | None
    trains: str | None  # the ID of the individual in training
    since: float | None  # when that individual was born
    attempt: int | None
    doing: str
    step: int | None
    silent: float  # seconds since its last heartbeat
    stale: bool  # whether another worker may take over its training
    individuals: int  # the number that it has trained
    seconds: float
    overhead: float
    recent: bool  # whether it finished a training in the last minutes


class WorkerMonitor:
    """Observes the workers of one experiment."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._monitor = HeartbeatMonitor(lambda who: observer.view.worker(who).heartbeat(), self.lease)

    @property
    def lease(self) -> float:
        return self._observer.view.manifest.lease

    def workers(self) -> tuple[list[WorkerStatus], int]:
        """The active workers, and the number of those that worked on the experiment before."""
        observer, now = self._observer, time.time()
        with observer.lock:
            training = {one.owner: one for one in observer.training if one.owner != FREE}
            totals = overhead_by_worker(observer.table)
            recent = overhead_by_worker(observer.table, now - RECENT)
        active = sorted(training.keys() | recent.keys())
        self._monitor.forget_others(set(active))
        found = [self._status(who, training.get(who), totals.get(who), who in recent) for who in active[:_MOST]]
        return found, len(totals.keys() - set(active))

    def _status(self, who: str, trains: Individual | None, total: Overhead | None, recent: bool) -> WorkerStatus:
        total = total or Overhead()
        files, table = self._observer.view.worker(who), self._observer.table
        beat = modified(self._observer, who, HEARTBEAT)
        age = 0.0 if beat is None else max(0.0, time.time() - beat)
        silent = max(self._monitor.unchanged_for(who, time.monotonic()), age)
        words, info = files.heartbeat().decode("ascii", "replace").split(), files.info()
        row = table.rows.get(trains.id) if trains else None
        return WorkerStatus(
            who=who, host=info.host if info else "", process=info.process if info else None,
            started=info.started if info else None, trains=trains.id if trains else None,
            since=table.get(row, "born") if row is not None else None, attempt=trains.claim if trains else None,
            doing=words[1] if len(words) > 2 else "",
            step=int(words[2]) if len(words) > 2 and words[2].isascii() and words[2].isdigit() else None,
            silent=silent, stale=trains is not None and silent >= self.lease,
            individuals=total.individuals, seconds=total.seconds, overhead=total.share, recent=recent,
        )  # fmt: skip


def at_work(observer: Observer, now: float) -> dict[str, float]:
    """The workers that train something, each with the time at which it started, by the times of files. A worker that
    has been silent for a whole lease is left out. Of very many, only some are looked at.
    """
    owners = sorted({one.owner for one in observer.training if one.owner != FREE})
    found = dict.fromkeys(owners[_MOST_TIMES:], now)
    for who in owners[:_MOST_TIMES]:
        beat = modified(observer, who, HEARTBEAT)
        if beat is not None and now - beat < max(observer.view.manifest.lease, QUIET):
            found[who] = modified(observer, who, INFO) or now
    return found


def modified(observer: Observer, who: str, name: str) -> float | None:
    """The wall clock time at which a worker last wrote one of its files."""
    try:
        return Path(observer.path, "workers", who, name).stat().st_mtime
    except OSError:
        return None
