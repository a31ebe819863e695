"""The workers of an experiment: what each trains and since when, and which have been silent for too long.

Heartbeats are compared with themselves on this process's own clock, as workers do; the time of a file is only shown,
for the silence before this process started to observe.
"""

import time
from pathlib import Path

import msgspec

from genepool.analysis.observer import Observer
from genepool.analysis.spending import RECENT, Overhead, overhead_by_worker
from genepool.population import FREE, HEARTBEAT, INFO, HeartbeatMonitor, Individual

QUIET = 30.0  # seconds; clocks differ a little, and heartbeats are late on a busy machine
_MOST = 2000
_MOST_TIMES = 100


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
