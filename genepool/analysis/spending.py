"""What an experiment has spent and reached, and which part of the training time is overhead."""

import time
from collections.abc import Collection, Mapping

import msgspec
import numpy as np

from genepool.analysis.reader import Reader
from genepool.analysis.table import OTHERS, Table, elapsed
from genepool.evolution import Spending
from genepool.population import FREE, DirectoryView, State, Sweep

Interval = tuple[float, float]  # two wall clock times
ROUNDING = 1e-9  # sums of FLOPs are equal if they differ by no more than this fraction
RECENT = 300.0
"""Seconds; rates are averages over this time, and a worker that finished nothing for longer is not shown as active."""


class Stopwatch:
    """Measures a run in progress by the monotonic clock: a clock put forward by an hour must not end a short run."""

    def __init__(self) -> None:
        self._started, self._since = time.time(), time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._since

    def interval(self) -> Interval:
        return self._started, self._started + self.seconds()


def spending(table: Table, also: Interval | None = None, unfinished: float = 0.0) -> Spending:
    """Add up all individuals that became alive, the time of a run in progress, and FLOPs that led to no result."""
    rows = table.finished_rows()
    stops, fitness = table.column("finished")[rows], table.column("fitness")[rows]
    starts = stops - table.column("seconds")[rows]
    if also is not None:
        place = int(np.searchsorted(stops, also[1]))
        starts, stops = np.insert(starts, place, also[0]), np.insert(stops, place, also[1])
    best, floor = float(fitness.max(initial=-np.inf)), float(fitness.min(initial=0.0))
    flops, failed = table.column("flops")[rows], table.column("failed")[rows]
    return Spending(
        seconds=float(elapsed(starts, stops)[-1]) if len(stops) else 0.0,
        individuals=len(rows),
        flops=int(flops.sum() + unfinished),
        flops_lost=int(flops[failed].sum() + unfinished),
        best=max(best, floor),
        since_best=len(rows) - 1 - int(np.argmax(fitness)) if best > floor else len(rows),
    )


def unfinished_flops(table: Table, executed: Mapping[str, int], busy: Collection[str]) -> float:
    """FLOPs that workers executed in trainings that led to no result: taken over, given up or cut off. `executed` is
    what each worker has executed by its latest heartbeat; its results show what came of it. A training that was handed
    over counts here until its result is there, which includes the steps before the checkpoint. What `busy` workers
    train now does not count yet. What a killed worker did after its last heartbeat is unknown.
    """
    texts, rows = table.workers.texts, table.column("worker")
    in_results = dict(zip(texts, np.bincount(rows, table.column("executed"), len(texts)).tolist(), strict=True))
    shown = dict.fromkeys([*texts, OTHERS], 0.0)
    for who, flops in executed.items():
        if who not in busy:
            shown[who if who in shown else OTHERS] += flops
    total = sum(max(flops, in_results.get(who, 0.0)) for who, flops in shown.items())
    unfinished = total - float(table.column("flops").sum())
    return unfinished if unfinished > ROUNDING * total else 0.0


def owners(sweep: Sweep) -> set[str]:
    """The workers that own an individual in training."""
    return {one.owner for one in sweep.individuals if one.state is State.TRAINING and one.owner != FREE}


class Ledger:
    """The results of an experiment and nothing else, which is all that a worker needs to follow the budget."""

    def __init__(self, view: DirectoryView) -> None:
        self._view, self._reader = view, Reader(view, births=False)
        self._table = Table()
        self._unfinished = 0.0

    def __len__(self) -> int:
        return len(self._table)

    def refresh(self) -> None:
        """Add the individuals that became alive since the last call."""
        for seen in self._reader.changes():
            if seen.result is not None:
                self._table.take(seen)
        self._unfinished = unfinished_flops(self._table, self._view.executed(), owners(self._reader.sweep))

    def spending(self, also: Interval | None = None) -> Spending:
        """What all of them spent and reached, with the time of a run in progress."""
        return spending(self._table, also, self._unfinished)


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """Times of some individuals, added up."""

    individuals: int = 0
    seconds: float = 0.0
    stepping: float = 0.0  # the part of the seconds spent in training steps after the first

    @property
    def share(self) -> float:
        """The part of the seconds that is overhead."""
        return max(0.0, 1 - self.stepping / self.seconds) if self.seconds > 0 else 0.0


def overhead(table: Table, since: float = 0.0) -> Overhead:
    """The overhead of all individuals that became alive after a wall clock time."""
    chosen = table.column("finished") > since
    seconds, stepping = (float(table.column(name)[chosen].sum()) for name in ("seconds", "stepping"))
    return Overhead(individuals=int(chosen.sum()), seconds=seconds, stepping=stepping)


def overhead_by_worker(table: Table, since: float = 0.0) -> dict[str, Overhead]:
    """The same for each worker that finished a training, sorted by name."""
    texts, chosen = table.workers.texts, table.column("finished") > since
    worker = table.column("worker")[chosen]
    counts = np.bincount(worker, minlength=len(texts))
    seconds, stepping = (
        np.bincount(worker, table.column(name)[chosen], len(texts)).tolist() for name in ("seconds", "stepping")
    )
    return {
        texts[number]: Overhead(individuals=int(counts[number]), seconds=seconds[number], stepping=stepping[number])
        for number in sorted(np.nonzero(counts)[0], key=texts.__getitem__)
    }
