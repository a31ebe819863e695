"""Dashboards that observe a storm: they must see no fault, and know all individuals at the end.

python -m tests.races.dashboard_observer POPULATION       observes until its input ends, then prints what it has seen

A reader reads without pauses, which no dashboard does, and a client consumes the feed of a real `genepool dashboard`,
disconnects sometimes, and reconnects for what it missed. They run outside the storm's own process, which forks.
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

Facts = dict[str, list[Any]]
"""State and fitness by ID."""
STAYS = 7
"""The number of messages after which the client reconnects."""


class Onlooker:
    """The observing process."""

    def __init__(self, population: Path) -> None:
        self._population = population
        command = [sys.executable, "-m", "tests.races.dashboard_observer", str(population)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def verdict(self) -> tuple[dict[str, int], list[tuple[str, str]]]:
        """End it after all workers have ended; return figures, and what it saw wrongly."""
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
        return {"dashboard messages": seen["messages"]}, faults

    def end_at_once(self) -> None:
        """Kill the process, if the storm itself fails."""
        self._process.kill()
        self._process.wait()


def _facts(state: str, fitness: float | None) -> list[Any]:
    return [state, None if fitness is None or isnan(fitness) else round(fitness, 6)]


def _differences(seen: Facts | None, truth: Facts) -> list[str]:
    if seen is None:
        return []
    known = {who: facts for who, facts in seen.items() if facts[0] != "Q"}  # the history leaves these out too
    wrong = [who for who in truth.keys() & known.keys() if truth[who] != known[who]]
    return [
        *(f"does not know {who}, which is {truth[who]}" for who in sorted(truth.keys() - known.keys())),
        *(f"knows {who}, which is not there" for who in sorted(known.keys() - truth.keys())),
        *(f"says that {who} is {known[who]}, but it is {truth[who]}" for who in sorted(wrong)),
    ]


# -- in the observing process ------------------------------------------------------------------------------------------


class Follower:
    """Collects the messages of a feed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        (self._key,) = client.keys().values()
        self.facts: Facts = {}
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
        except Exception as error:  # noqa: BLE001 - any exception is a fault
            self.troubles.add(f"its feed break: {error!r}")

    def _stay(self) -> None:
        feed = self._client.events(self._key, last=self._cursor)
        for number, (name, cursor, document) in enumerate(feed):
            self.messages += 1
            if name == "rows":
                rows = document["rows"]
                facts = map(_facts, rows["state"], rows["fitness"])
                self.facts.update(zip(rows["id"], facts, strict=True))
                self._cursor = cursor
            elif name == "status":
                self.troubles.add(document["trouble"])
            elif self._cursor:
                self.troubles.add("its feed start again")
            if self._over.is_set() or number == STAYS:
                break
        feed.close()

    def end(self) -> None:
        """Wait for the last change to arrive."""
        look_again(self._client, self._key)
        wait_for(lambda: self.troubles - {""} or self._client.status(self._key)["cursor"] == self._cursor)
        self._over.set()
        self._thread.join()


def main() -> None:
    """Observe as often as possible."""
    place, over = Path(sys.argv[1]), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    if not (export.FOLDER / "page.js").exists():  # a dashboard needs the built page
        if os.environ.get("GENEPOOL_NEEDS_BROWSER"):
            sys.exit("A dashboard needs the built page (make page).")
        print(json.dumps({**look(place, over), "feed": None, "messages": 0}))
        return
    with dashboard(place) as client:
        follower = Follower(client)
        seen = look(place, over)
        follower.end()
    troubles = sorted({*seen["troubles"], *follower.troubles} - {""})
    print(json.dumps({**seen, "feed": follower.facts, "messages": follower.messages, "troubles": troubles}))


def look(place: Path, over: threading.Event) -> dict[str, Any]:
    """Return what a reader knows at the end, and the faults that it met."""
    observer, troubles = Observer(place), set()
    while not over.wait(0.05):
        observer.refresh()
        troubles.add(observer.trouble)
    observer.refresh()
    troubles |= {observer.trouble, *observer.reader.damaged}
    table = observer.table
    facts = {who: _facts(chr(table.get(row, "state")), table.get(row, "fitness")) for who, row in table.rows.items()}
    return {"troubles": sorted(troubles - {""}), "reader": facts}


if __name__ == "__main__":
    main()
