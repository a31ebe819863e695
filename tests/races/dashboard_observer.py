"""Dashboards that look on during a storm: they must see no fault, and know everybody when all is over.

python -m tests.races.dashboard_observer POPULATION       looks until its input ends, then says what it has seen

A reader looks without a pause, which no dashboard does; and a client consumes the feed of a real `genepool dashboard`,
goes away now and then, and comes back for what it missed. They are no part of the storm's own process, which forks.
"""
# ruff: noqa: T201

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from math import isnan
from pathlib import Path
from typing import Any

from genepool.analysis import History, Observer
from genepool.dashboard import export
from genepool.population import DirectoryView
from tests.support.dashboards import Client, dashboard, look_again, wait_for

Everybody = dict[str, list[Any]]
"""State and fitness by ID."""
STAYS = 7
"""Messages until the client goes away and comes back."""


class Onlooker:
    """The process that looks on."""

    def __init__(self, population: Path) -> None:
        self._population = population
        command = [sys.executable, "-m", "tests.races.dashboard_observer", str(population)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def verdict(self) -> tuple[dict[str, int], list[tuple[str, str]]]:
        """Ends it, after everybody else has ended: figures, and what it saw that was not so."""
        output, _ = self._process.communicate(timeout=600)
        if self._process.returncode:
            return {}, [("dashboard", f"it ended with exit code {self._process.returncode}; its message is above")]
        seen = json.loads(output)
        history = History(DirectoryView.open(self._population))
        history.refresh()
        truth = {row.id: _facts(row.state.value, row.fitness) for row in history.rows.values()}
        faults = [("dashboard", f"it saw {trouble}") for trouble in seen["troubles"]]
        for who in ("reader", "feed"):
            faults += [("dashboard", f"the {who} {fault}") for fault in _differences(seen[who], truth)]
        return {"told by a dashboard": seen["messages"]}, faults

    def end_at_once(self) -> None:
        """For when the storm itself fails."""
        self._process.kill()
        self._process.wait()


def _facts(state: str, fitness: float | None) -> list[Any]:
    return [state, None if fitness is None or isnan(fitness) else round(fitness, 6)]


def _differences(seen: Everybody | None, truth: Everybody) -> list[str]:
    if seen is None:
        return []
    known = {who: facts for who, facts in seen.items() if facts[0] != "Q"}  # the history does not tell of those either
    wrong = [who for who in truth.keys() & known.keys() if truth[who] != known[who]]
    return [
        *(f"does not know {who}, which is {truth[who]}" for who in sorted(truth.keys() - known.keys())),
        *(f"knows {who}, which is not there" for who in sorted(known.keys() - truth.keys())),
        *(f"says that {who} is {known[who]}, but it is {truth[who]}" for who in sorted(wrong)),
    ]


# -- in the process that looks on --------------------------------------------------------------------------------------


class Follower:
    """Knows what the messages of a feed have told."""

    def __init__(self, client: Client) -> None:
        self._client = client
        (self._key,) = client.keys().values()
        self.everybody: Everybody = {}
        self.troubles: set[str] = set()
        self.messages = 0
        self._cursor = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        try:
            while not self._over.is_set():
                self._stay()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault
            self.troubles.add(f"its feed break: {error!r}")

    def _stay(self) -> None:
        feed = self._client.events(self._key, last=self._cursor)
        for number, (name, cursor, document) in enumerate(feed):
            self.messages += 1
            if name == "rows":
                rows = document["rows"]
                facts = map(_facts, rows["state"], rows["fitness"])
                self.everybody.update(zip(rows["id"], facts, strict=True))
                self._cursor = cursor
            elif name == "status":
                self.troubles.add(document["trouble"])
            elif self._cursor:
                self.troubles.add("its feed start again")
            if self._over.is_set() or number == STAYS:
                break
        feed.close()

    def end(self) -> None:
        """After the last change: waits until it has been told."""
        look_again(self._client, self._key)
        wait_for(lambda: self.troubles - {""} or self._client.status(self._key)["cursor"] == self._cursor)
        self._over.set()
        self._thread.join()


def main() -> None:
    """Looks as often as it can."""
    place, over = Path(sys.argv[1]), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    if not (export.FOLDER / "page.js").exists():  # without a page a dashboard does not start
        if os.environ.get("GENEPOOL_NEEDS_BROWSER"):
            sys.exit("No dashboard can look on without the built page (make page).")
        print(json.dumps({**look(place, over), "feed": None, "messages": 0}))
        return
    with dashboard(place) as client:
        follower = Follower(client)
        seen = look(place, over)
        follower.end()
    troubles = sorted({*seen["troubles"], *follower.troubles} - {""})
    print(json.dumps({**seen, "feed": follower.everybody, "messages": follower.messages, "troubles": troubles}))


def look(place: Path, over: threading.Event) -> dict[str, Any]:
    """What a reader knows in the end, and which faults it met."""
    observer, troubles = Observer(place), set()
    while not over.wait(0.05):
        observer.refresh()
        troubles.add(observer.trouble)
    observer.refresh()
    troubles |= {observer.trouble, *observer.reader.damaged}
    table = observer.table
    everybody = {
        who: _facts(chr(table.get(row, "state")), table.get(row, "fitness")) for who, row in table.rows.items()
    }
    return {"troubles": sorted(troubles - {""}), "reader": everybody}


if __name__ == "__main__":
    main()
