"""The JSON documents of the dashboard's API as plain values; docs/reference/dashboard-api.md describes them."""

from typing import Any

import msgspec
import numpy as np

from genepool import __version__
from genepool.analysis import Observer, Terms, WorkerMonitor, records_of, status_of
from genepool.errors import GenepoolError, shown
from genepool.experiment import Experiment, settings_changes
from genepool.population import FREE
from genepool.settings import FIXED, by_name

VERSION = 2  # the version of the API; fields may be added under the same number
EVERYTHING = 10**9

_PLAIN = ("parent", "mutation", "worker", "version", "depth", "parameters", "flops", "learning_rate", "spent", "rank")
_TIMES = ("born", "finished", "seconds", "elapsed")
_MOST, _MOST_FOREIGN = 2000, 200
_SAME_NAME = ("state", "trouble", "now", "census", "spent", "rate", "best", "records", "last_finished", "over")


def about(*, control: bool, single: bool, name: str) -> dict[str, Any]:
    """The document `/api`."""
    return {"api": VERSION, "genepool": __version__, "control": control, "single": single, "name": name}


def sequence_of(observer: Observer, cursor: str) -> int | None:
    """The sequence number in a cursor; None if the cursor is from another process, whose numbers are not valid here."""
    boot, _, number = cursor.partition("-")
    is_valid = boot == observer.boot and number.isascii() and number.isdigit()
    return min(int(number[:18]), observer.table.sequence) if is_valid else None


def individuals(observer: Observer, since: int = 0, most: int = EVERYTHING) -> dict[str, Any]:
    """The document `/api/experiments/KEY/individuals`: columns of the rows that changed after a sequence number."""
    with observer.lock:
        table = observer.table
        rows = table.changed_since(since, most)
        states = table.column("state")[rows].tobytes().decode("ascii")
        columns: dict[str, Any] = {name: table.column(name)[rows].tolist() for name in _PLAIN}
        columns |= {name: np.round(table.column(name)[rows], 3).tolist() for name in _TIMES}
        columns["fitness"] = np.round(table.column("fitness")[rows], 6).tolist()
        last = int(table.column("sequence")[rows[-1]]) if len(rows) else table.sequence
        return {
            "cursor": f"{observer.boot}-{last}",
            "total": len(table),
            "mutations": list(table.mutations.texts),
            "workers": list(table.workers.texts),
            "rows": {"index": rows.tolist(), "id": [table.ids[row] for row in rows], "state": states, **columns},
        }


def status(observer: Observer) -> dict[str, Any]:
    """The document `/api/experiments/KEY`."""
    # Before the rest: a refresh that ends meanwhile must not date what was read of the table before it.
    seen = {"seen_at": observer.seen_at, "reading": observer.reading}
    try:
        experiment = Experiment.open(observer.path)
        found = status_of(observer, experiment.terms())
        settings = _settings(observer, experiment)
    except (GenepoolError, OSError) as error:
        found = status_of(observer, Terms())
        found = msgspec.structs.replace(found, state="unreadable", trouble=found.trouble or shown(str(error)))
        settings = {"settings": {}, "fixed": [], "settings_version": 0, "budget": {}, "changes": []}
    return {
        "path": shown(observer.path),
        "created": observer.view.manifest.created,
        "cursor": observer.cursor,
        **seen,
        "rows": len(observer.table),
        "damaged": len(observer.reader.damaged),
        **{name: msgspec.to_builtins(getattr(found, name)) for name in _SAME_NAME},
        "overhead": found.overhead.share,
        "seconds_left": found.seconds_left,
        "final_phase": found.final_phase is not None,
        "escape": found.escape,
        **settings,
    }


def records(observer: Observer) -> dict[str, Any]:
    """The document `/api/experiments/KEY/records`."""
    with observer.lock:
        found: dict[str, Any] = msgspec.to_builtins(records_of(observer.table.progress()))
    return found


def _settings(observer: Observer, experiment: Experiment) -> dict[str, Any]:
    return {
        "settings": by_name(experiment.settings()),
        "fixed": list(FIXED),
        "settings_version": experiment.version(),
        "budget": msgspec.to_builtins(experiment.terms().budget),
        "changes": _changes(observer, experiment),
    }


def _changes(observer: Observer, experiment: Experiment) -> list[dict[str, Any]]:
    """Each change of settings, and how far the experiment was then."""
    found = settings_changes(experiment)
    if not found:
        return []
    with observer.lock:
        progress = observer.table.progress()

    def so_far(count: int) -> dict[str, float]:
        seconds, flops = (progress.elapsed[count - 1], progress.spent[count - 1]) if count else (0.0, 0.0)
        return {"individuals": count, "seconds": float(seconds), "flops": float(flops)}

    return [{**change._asdict(), **so_far(progress.at(change.when))} for change in found]


def workers(observer: Observer, monitor: WorkerMonitor) -> dict[str, Any]:
    """The document `/api/experiments/KEY/workers`."""
    active, former = monitor.workers()
    with observer.lock:
        table, reader = observer.table, observer.reader
        is_alive = table.column("state") == ord("A")
        return {
            "lease": monitor.lease,
            "workers": msgspec.to_builtins(active),
            "before": former,
            "handed_over": [one.id for one in observer.training if one.owner == FREE],
            "quarantined": [{"id": one.id, "why": one.why} for one in observer.quarantined[:_MOST]],
            "foreign": observer.foreign[:_MOST_FOREIGN],
            "damaged": sorted(reader.damaged)[:_MOST],
            "disk": {"results": int(table.column("bytes")[is_alive].sum()), "logs": reader.bytes_of_logs()},
            "events": [{"worker": who, **msgspec.to_builtins(event)} for who, event in reader.events()],
        }
