"""A dashboard's reader that looks on during a storm: it must see no fault, and count right when all is over.

python -m tests.races.onlooker POPULATION       looks until its input ends, then says what it has seen
"""
# ruff: noqa: T201

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from genepool.analysis import History
from genepool.dashboard.reader import Reader
from genepool.population import DirectoryView


class Onlooker:
    """The process that looks on."""

    def __init__(self, population: Path) -> None:
        self._population = population
        command = [sys.executable, "-m", "tests.races.onlooker", str(population)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def faults(self) -> list[tuple[str, str]]:
        """Ends it, after everybody else has ended; what it saw that was not so."""
        output, _ = self._process.communicate(timeout=120)
        if self._process.returncode:
            return [("dashboard", f"its reader ended with exit code {self._process.returncode}")]
        seen = json.loads(output)
        history = History(DirectoryView.open(self._population))
        history.refresh()
        there = Counter(row.state.value for row in history.rows.values())
        found = [("dashboard", f"it saw {trouble}") for trouble in seen["troubles"]]
        if seen["states"] != there:
            found.append(("dashboard", f"it counts {seen['states']}, but there are {dict(there)}"))
        return found

    def end_at_once(self) -> None:
        """For when the storm itself fails."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Looks as often as it can."""
    reader, troubles = Reader(Path(sys.argv[1])), set()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.wait(0.05):
        reader.refresh()
        troubles.add(reader.trouble)
    reader.refresh()
    troubles |= {reader.trouble, *reader.damaged}
    table = reader.table
    # Nobody in quarantine is told of by the history either.
    states = Counter(chr(table.get(row, "state")) for row in table.rows.values())
    states.pop("Q", None)
    print(json.dumps({"troubles": sorted(troubles - {""}), "states": states}))


if __name__ == "__main__":
    main()
