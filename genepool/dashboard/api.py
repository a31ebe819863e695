"""The JSON documents of the dashboard's API (docs/dashboard.md describes each), as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genepool import __version__
from genepool.dashboard.reader import Reader

VERSION = 1
"""Of the API; fields may be added under the same number."""
EVERYTHING = 10**9

_PLAIN = ("parent", "mutation", "worker", "version", "depth", "parameters", "flops", "learning_rate")
_TIMES = ("born", "finished", "seconds")


def about(*, control: bool, single: bool, name: str) -> dict[str, Any]:
    """The document `/api`."""
    return {"api": VERSION, "genepool": __version__, "control": control, "single": single, "name": name}


def sequence_of(reader: Reader, cursor: str) -> int | None:
    """How far a cursor is; None if it is from another reader, whose numbers mean nothing here."""
    boot, _, number = cursor.partition("-")
    known = boot == reader.boot and number.isascii() and number.isdigit()
    return min(int(number[:18]), reader.table.sequence) if known else None


def individuals(reader: Reader, since: int = 0, most: int = EVERYTHING) -> dict[str, Any]:
    """The document `/api/experiments/KEY/individuals`: columns of the rows that changed after a number."""
    with reader.lock:
        table = reader.table
        rows = table.changed_since(since, most)
        states = table.column("state")[rows].tobytes().decode("ascii")
        columns: dict[str, Any] = {name: table.column(name)[rows].tolist() for name in _PLAIN}
        columns |= {name: np.round(table.column(name)[rows], 3).tolist() for name in _TIMES}
        columns["fitness"] = np.round(table.column("fitness")[rows], 6).tolist()
        last = int(table.column("sequence")[rows[-1]]) if len(rows) else table.sequence
        return {
            "cursor": f"{reader.boot}-{last}",
            "total": len(table),
            "mutations": list(reader.mutations.texts),
            "workers": list(reader.workers.texts),
            "rows": {
                "index": rows.tolist(),
                "id": [table.ids[row] for row in rows],
                "state": states,
                **columns,
            },
        }


def curve(reader: Reader) -> dict[str, Any]:
    """The document `/api/experiments/KEY/curve`: every new best, and where the experiment stands now."""
    with reader.lock:
        table = reader.table
        fitness, finished = table.column("fitness"), table.column("finished")
        rows = table.finished_rows()
        scores, flops = fitness[rows], np.cumsum(table.column("flops")[rows])
        stops = finished[rows]
        starts = stops - table.column("seconds")[rows]
    if not len(rows):
        return {"individuals": [], "seconds": [], "flops": [], "best": []}
    best = np.maximum.accumulate(scores)
    records = np.concatenate([[True], best[1:] > best[:-1]])
    records[-1] = True
    elapsed = _elapsed(starts, stops)
    return {
        "individuals": (np.nonzero(records)[0] + 1).tolist(),
        "seconds": np.round(elapsed[records], 3).tolist(),
        "flops": flops[records].tolist(),
        "best": np.round(best[records], 6).tolist(),
    }


def _elapsed(starts: NDArray[np.float64], stops: NDArray[np.float64]) -> NDArray[np.float64]:
    """How long somebody had been training by the end of each, in the order of their ends; pauses do not count."""
    began = np.minimum.accumulate(starts[::-1])[::-1]  # of this one and of all that ended later
    previous = np.concatenate([[-np.inf], stops[:-1]])
    return np.cumsum(np.clip(stops - np.maximum(began, previous), 0.0, None))
