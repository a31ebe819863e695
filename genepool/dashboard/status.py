"""How an experiment stands, from the table: what it has spent, how fast it goes, what is left of its budget."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.analysis import RECENT
from genepool.dashboard.reader import Reader
from genepool.dashboard.table import Table
from genepool.errors import GenepoolError, shown
from genepool.evolution.budget import Budget, Spending
from genepool.experiment import Experiment, budget_of, final_phase_of
from genepool.population import State
from genepool.population.directory.manifest import Published, config_versions, published, read_config
from genepool.population.directory.names import config_name
from genepool.population.individual import FREE
from genepool.settings import FIXED, to_values

QUIET = 30.0
"""Seconds: clocks differ a little, and beats come late on a busy machine."""
MOMENT = 5.0
"""Seconds: a worker that has just finished one will soon begin the next."""
_ASKED = 100


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Over the last minutes."""

    individuals_a_minute: float = 0.0
    flops_a_second: float = 0.0
    overhead: float = 0.0
    """The share of training time that was not steps 2 to n, over the whole experiment."""
    last_finished: float | None = None
    """On the wall clock."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the settings as it came into force."""

    version: int
    when: float
    who: str
    label: str
    """In a few words, where it was an intervention."""
    changes: dict[str, tuple[Any, Any]]
    """By name: the value before and after."""


def spent(table: Table) -> Spending:
    """What `analysis.spending` tells, in columns."""
    finished, fitness = table.column("finished"), table.column("fitness")
    rows = table.finished_rows()
    if not len(rows):
        return Spending()
    scores = fitness[rows]
    best = float(scores.max())
    since = len(rows) - 1 - int(np.argmax(scores)) if best > 0 else len(rows)
    return Spending(
        seconds=_union(finished[rows] - table.column("seconds")[rows], finished[rows]),
        individuals=len(rows),
        flops=int(table.column("flops")[rows].sum()),
        best=max(best, 0.0),
        since_best=since,
    )


def _union(starts: NDArray[np.float64], stops: NDArray[np.float64]) -> float:
    """How long at least one of the intervals lasted."""
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    latest = np.maximum.accumulate(stops)
    before = np.concatenate([[-np.inf], latest[:-1]])
    return float(np.maximum(0.0, latest - np.maximum(starts, before)).sum())


def pace(table: Table, now: float) -> Pace:
    """How fast it goes."""
    finished, seconds = table.column("finished"), table.column("seconds")
    done = ~np.isnan(finished)
    if not done.any():
        return Pace()
    last = float(finished[done].max())
    recent = done & (finished > now - RECENT)
    began = float((finished[done] - seconds[done]).min())
    window = max(1.0, min(RECENT, now - began))
    whole = float(seconds[done].sum())
    return Pace(
        individuals_a_minute=float(recent.sum()) * 60 / window,
        flops_a_second=float(table.column("flops")[recent].sum()) / window,
        overhead=max(0.0, 1 - float(table.column("stepping")[done].sum()) / whole) if whole > 0 else 0.0,
        last_finished=last,
    )


def seconds_left(budget: Budget, so_far: Spending, going: Pace) -> float | None:
    """Until the first limit is reached, at the present pace; None where nobody can tell."""
    guesses = [budget.time - so_far.seconds] if budget.time else []
    if budget.individuals and going.individuals_a_minute > 0:
        guesses.append((budget.individuals - so_far.individuals) * 60 / going.individuals_a_minute)
    if budget.flops and going.flops_a_second > 0:
        guesses.append((budget.flops - so_far.flops) / going.flops_a_second)
    return max(0.0, min(guesses)) if guesses else None


def marks(reader: Reader) -> list[Mark]:
    """Every version of the settings after the first, with what it changed."""
    root, found = str(reader.path), []
    known: dict[str, Any] = {}
    with contextlib.suppress(OSError, GenepoolError):
        notes = published(reader.files, root)
        for version in config_versions(reader.files, root):
            _, values = read_config(reader.files, root, version)
            changes = {
                name: (known.get(name), values.get(name))
                for name in sorted(known.keys() | values.keys())
                if known.get(name) != values.get(name)
            }
            if known and changes:
                note = notes.get(version) or Published(when=_modified(Path(root) / "config" / config_name(version)))
                found.append(Mark(version=version, when=note.when, who=note.who, label=note.label, changes=changes))
            known = values
    return found


def _modified(path: Path) -> float:
    return path.stat().st_mtime


def standing(reader: Reader) -> dict[str, Any]:
    """The document `/api/experiments/KEY`."""
    now = time.time()
    # Before the rest: a look that ends meanwhile must not vouch for what was read of the table before it.
    looked = {"seen_at": reader.seen_at, "reading": reader.reading, "trouble": reader.trouble}
    with reader.lock:
        so_far, going = spent(reader.table), pace(reader.table, now)
        census, individuals, best = reader.census, len(reader.table), _best(reader.table)
    lately = going.last_finished is not None and now - going.last_finished < MOMENT
    since = at_work_since(reader, now)
    if since is not None:
        # The last training, of the best, may take two fifths of the time: until it ends, no record tells of that.
        since = max(since, going.last_finished or 0.0)
        so_far = msgspec.structs.replace(so_far, seconds=so_far.seconds + max(0.0, now - since))
    facts: dict[str, Any] = {
        "path": shown(reader.path),
        "created": reader.view.manifest.created,
        "now": now,
        "cursor": reader.cursor,
        **looked,
        "rows": individuals,
        "census": msgspec.to_builtins(census),
        "damaged": len(reader.damaged),
        "spent": msgspec.to_builtins(so_far),
        "pace": msgspec.to_builtins(going),
        "best": best,
        "marks": msgspec.to_builtins(marks(reader)),
    }
    try:
        facts |= _settings(reader, so_far, going)
    except (GenepoolError, OSError) as error:
        facts |= {"settings": {}, "fixed": [], "settings_version": 0, "budget": {}, "over": None}
        facts |= {"seconds_left": None, "finishing": False}
        facts["trouble"] = facts["trouble"] or shown(str(error))
    facts["state"] = _state(facts, lately or since is not None)
    if facts["state"] != "going":
        facts |= {"seconds_left": None, "finishing": False}
    return facts


def at_work_since(reader: Reader, now: float) -> float | None:
    """When the first of those who train something began its work, as far as the times of files tell; None: nobody does.

    Whoever has not shown itself for a whole lease does not count.
    """
    owners, began = {one.owner for one in reader.sweep_training if one.owner != FREE}, []
    for who in sorted(owners)[:_ASKED]:
        home = reader.path / "workers" / who
        with contextlib.suppress(OSError):
            if now - _modified(home / "beat") < max(reader.view.manifest.lease, QUIET):
                began.append(now)
                began[-1] = _modified(home / "info.json")
    return min(began, default=None)


def _settings(reader: Reader, so_far: Spending, going: Pace) -> dict[str, Any]:
    experiment = Experiment.open(reader.path)
    settings = experiment.settings()
    budget = budget_of(settings)
    return {
        "settings": to_values(settings),
        "fixed": list(FIXED),
        "settings_version": experiment.version(),
        "budget": msgspec.to_builtins(budget),
        "over": budget.over(so_far),
        "seconds_left": seconds_left(budget, so_far, going),
        "finishing": final_phase_of(settings).has_begun(budget.use(so_far)),
    }


def _best(table: Table) -> dict[str, Any] | None:
    """The living individual of highest fitness, the first that reached it."""
    fitness = np.where(table.column("state") == ord(State.ALIVE.value), table.column("fitness"), np.nan)
    if not len(fitness) or np.isnan(fitness).all():
        return None
    highest = np.nonzero(fitness == np.nanmax(fitness))[0]
    row = int(highest[np.argmin(table.column("finished")[highest])])
    return {"index": row, "id": table.ids[row], "fitness": table.get(row, "fitness")}


def _state(facts: dict[str, Any], worked_on: bool) -> str:
    """In a word, for the page."""
    if facts["trouble"]:
        return "vanished"
    if facts["over"] is not None and not facts["census"]["training"]:
        return "finished"
    if not facts["rows"]:
        return "reading" if facts["reading"] else "empty"
    return "going" if worked_on else "resting"


EVERY = 3.0
"""Seconds until it is told again although nothing has happened: times go on."""
SHARE = 200
"""After news it waits so many times as long as the last one took: it goes through everybody who ever lived."""

LONGEST = 30.0


class Bulletin:
    """The latest text; made anew when somebody asks and it is time."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._one_at_a_time = threading.Lock()
        self._news = ""
        self._made = self._cost = 0.0
        self.text = ""
        self.number = 0
        """Of the text, so that nobody is told twice."""

    def is_due(self) -> bool:
        """Whether there is news, and making a new one would not cost too much."""
        wait = (
            min(SHARE * self._cost, 10 * EVERY) if self._news != self._reader.news else max(EVERY, SHARE * self._cost)
        )
        return not self.number or time.monotonic() - self._made > wait

    def renew(self) -> None:
        """Makes a new text, unless somebody else just has."""
        with self._one_at_a_time:
            if not self.is_due():
                return
            began, self._news = time.thread_time(), self._reader.news
            self.text = msgspec.json.encode(standing(self._reader)).decode()
            self._made, self._cost = time.monotonic(), time.thread_time() - began
            self.number += 1
