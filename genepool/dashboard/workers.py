"""Who works on an experiment: what each trains and since when, and who has fallen silent.

Beats are compared with themselves on this process's own clock, as workers do; the time that a file carries is only
shown, for the silence before this process began to look.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from genepool.analysis import RECENT
from genepool.dashboard.reader import Reader
from genepool.population import Individual
from genepool.population.directory.workers import HeartbeatMonitor, Info
from genepool.population.individual import FREE

_MOST = 2000


class CrewWatch:
    """Looks at the workers of one experiment."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._watch = HeartbeatMonitor(self._heartbeat, reader.view.manifest.lease)

    def _place(self, who: str, name: str) -> Path:
        return self._reader.path / "workers" / who / name

    def _heartbeat(self, who: str) -> bytes:
        try:
            return self._reader.files.load(str(self._place(who, "heartbeat")), 64)
        except OSError:
            return b""

    def crew(self) -> dict[str, Any]:
        """The document `/api/experiments/KEY/workers`."""
        reader, now = self._reader, time.time()
        with reader.lock:
            training = {one.owner: one for one in reader.sweep_training if one.owner != FREE}
            waiting = [one.id for one in reader.sweep_training if one.owner == FREE]
            tallies = _tallies(reader, now)
            quarantined = [{"id": one.id, "why": one.why} for one in reader.quarantined[:_MOST]]
            stored = int(reader.table.column("bytes")[_kept(reader)].sum())
        at_work = sorted({*training, *(who for who, tally in tallies.items() if tally["recent"])})
        self._watch.forget_others(set(at_work))
        return {
            "lease": reader.view.manifest.lease,
            "workers": [self._worker(who, training.get(who), tallies.get(who), now) for who in at_work[:_MOST]],
            "before": len(tallies.keys() - set(at_work)),
            "handed_over": waiting,
            "quarantined": quarantined,
            "foreign": list(reader.foreign),
            "damaged": sorted(reader.damaged)[:_MOST],
            "disk": {"results": stored, "logs": reader.bytes_of_logs()},
            "events": [{"worker": who, **msgspec.to_builtins(event)} for who, event in reader.events()],
        }

    def _worker(
        self, who: str, trains: Individual | None, tally: dict[str, float] | None, now: float
    ) -> dict[str, Any]:
        silent = max(self._watch.unchanged_for(who, self._reader.files.monotonic()), self._age(who, now))
        words = self._heartbeat(who).decode("ascii", "replace").split()
        info = self._info(who)
        table = self._reader.table
        row = table.rows.get(trains.id) if trains else None
        return {
            "who": who,
            "host": info.host if info else "",
            "process": info.process if info else None,
            "started": info.started if info else None,
            "trains": trains.id if trains else None,
            "since": table.get(row, "born") if row is not None else None,
            "attempt": trains.claim if trains else None,
            "doing": words[1] if len(words) > 2 else "",
            "step": int(words[2]) if len(words) > 2 and words[2].isascii() and words[2].isdigit() else None,
            "silent": silent,
            "stale": bool(trains) and silent >= self._reader.view.manifest.lease,
            **(tally or {"individuals": 0, "seconds": 0.0, "overhead": 0.0, "recent": False}),
        }

    def _age(self, who: str, now: float) -> float:
        try:
            return max(0.0, now - self._place(who, "heartbeat").stat().st_mtime)
        except OSError:
            return 0.0

    def _info(self, who: str) -> Info | None:
        try:
            return msgspec.json.decode(self._reader.files.load(str(self._place(who, "info.json")), 4096), type=Info)
        except (OSError, msgspec.MsgspecError):
            return None


def _kept(reader: Reader) -> Any:
    """Rows whose files are still on the disk: the living."""
    return reader.table.column("state") == ord("A")


def _tallies(reader: Reader, now: float) -> dict[str, dict[str, Any]]:
    """What each worker has trained."""
    table, names = reader.table, reader.workers.texts
    done = ~np.isnan(table.column("finished"))
    worker, finished = table.column("worker")[done], table.column("finished")[done]
    seconds, stepping = table.column("seconds")[done], table.column("stepping")[done]
    size = len(names)
    counts = np.bincount(worker, minlength=size)
    whole, steps = np.bincount(worker, seconds, size), np.bincount(worker, stepping, size)
    recent = np.bincount(worker, finished > now - RECENT, size)
    return {
        names[number]: {
            "individuals": int(counts[number]),
            "seconds": float(whole[number]),
            "overhead": max(0.0, 1 - float(steps[number] / whole[number])) if whole[number] > 0 else 0.0,
            "recent": bool(recent[number]),
        }
        for number in range(1, size)
        if counts[number]
    }
