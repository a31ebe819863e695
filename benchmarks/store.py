"""How many evolutionary steps per second the population's directory allows when training costs nothing.

A step is a full step of `genepool.evolution.Worker`: draw a pair, kill the worse, mutate the better one's DNA, create
the child with its parent's weights linked in, "train" it at no cost, store 10 kB of weights and the result, make it
alive, archive and remove the dead. Networks have ten vertices, and only mutations that keep this number take part, so
that long and short runs cost the same; everything else is as in production, including the lookup of settings at every
step. A window may be too short for one of the rare sweeps of a large population, which take at most 2 % of the time.

It is compared with the machine's limit (`raw.py`) for one and two processes, each with its own population and with
steps and bare calls alternating several times per second; and with Optuna's journal (`journal.py`) doing ask and tell,
alternating every few seconds. All is repeated in rounds; the figures are medians. CPU time is reported too, since it
depends less on other load. The comparison with the journal is made on the disk and in memory (/dev/shm), since file
systems differ in the cost of new files. Prints tables and whether each target is met, and writes
benchmarks/results/store.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.journal import Journal, python_with_optuna
from benchmarks.raw import BesideRaw
from benchmarks.report import report
from benchmarks.seeding import seed_population
from benchmarks.simultaneous import Measured, measure
from benchmarks.steps import Evolve
from genepool.population.directory.files import Durability

LEVELS: tuple[Durability, ...] = ("fast", "safe")
DISK, MEMORY = "disk", "memory"
SHARED_MEMORY = Path("/dev/shm")
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    populations: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    """With one worker each; the second is the one that all other comparisons use."""
    workers: tuple[int, ...] = (1, 2, 8, 64)
    corners: tuple[tuple[int, int], ...] = ((10_000, 64), (100_000, 8))
    """Other pairs of population and workers."""
    raw: tuple[int, ...] = (1, 2)
    """Processes that the machine's limit is measured with."""
    trials: tuple[int, ...] = (2_000, 20_000)
    """In the journal when its measurement begins."""
    contestants: int = 4
    """Processes on either side of the comparison with the journal."""
    rounds: int = 3
    seconds: float = 2.0

    @property
    def base(self) -> int:
        return self.populations[1]


QUICK = Plan(
    populations=(100, 1_000, 10_000), workers=(1, 2, 8), corners=(), rounds=1, seconds=1.0, trials=(2_000, 20_000)
)

Key = tuple[str, ...]
Task = Callable[[], dict[Key, Measured]]


class Bench:
    """Populations on a disk, and the measurements on them."""

    def __init__(self, plan: Plan, places: dict[str, Path], python: str | None) -> None:
        self.plan, self._places = plan, places
        self._journals = {name: Journal(python, place) for name, place in places.items()} if python else {}
        self._seeded: set[Path] = set()

    def run(self) -> dict[Key, list[Measured]]:
        """Take every measurement, round after round."""
        found: dict[Key, list[Measured]] = defaultdict(list)
        for number in range(self.plan.rounds):
            for task in self._tasks(number):
                for key, measured in task().items():
                    found[key].append(measured)
                    _tell(f"round {number + 1}: {' '.join(key)}: {measured.rate:,.0f}/s")
        return found

    def _tasks(self, number: int) -> Iterator[Task]:
        """Yield what is compared with each other consecutively."""
        plan = self.plan
        for level in LEVELS:
            for processes in plan.raw:
                yield self._beside_raw(processes, level)
            for workers in plan.workers:
                yield self._evolve(plan.base, workers, level)
            for population in plan.populations:
                if population != plan.base:
                    yield self._evolve(population, 1, level)
        if number == 0:
            for population, workers in plan.corners:
                yield self._evolve(population, workers, "fast")
        yield from self._contest()

    def _contest(self) -> Iterator[Task]:
        for place, journal in self._journals.items():
            yield self._evolve(self.plan.base, self.plan.contestants, "fast", place)
            for trials in self.plan.trials:
                yield self._ask_tell(journal, place, trials)

    def _evolve(self, population: int, workers: int, level: Durability, place: str = DISK) -> Task:
        def task() -> dict[Key, Measured]:
            root = self._population(f"shared-{population}", population, place)
            [steps] = measure([Evolve(root, level)] * workers, self.plan.seconds)
            return {("evolve", level, str(population), str(workers), place): steps}

        return task

    def _beside_raw(self, processes: int, level: Durability) -> Task:
        def task() -> dict[Key, Measured]:
            jobs = []
            for number in range(processes):
                twins = [self._population(f"twin-{number}-{side}", self.plan.base) for side in "ab"]
                jobs.append(BesideRaw(*twins, level))
            steps, raw = measure(jobs, 2 * self.plan.seconds)
            rest = (level, str(self.plan.base), str(processes))
            return {("beside-raw", *rest): steps, ("raw", *rest): raw}

        return task

    def _ask_tell(self, journal: Journal, place: str, trials: int) -> Task:
        processes = self.plan.contestants
        key = ("journal", str(trials), str(processes), place)
        return lambda: {key: journal.measure(trials, processes, self.plan.seconds)}

    def _population(self, name: str, size: int, place: str = DISK) -> Path:
        root = self._places[place] / name
        if root not in self._seeded:
            _tell(f"seeding {size:,} individuals")
            seed_population(root, size)
            self._seeded.add(root)
        return root


def medians(found: dict[Key, list[Measured]]) -> dict[str, Any]:
    """Return steps (or trials) per second and milliseconds of CPU time per step, by the words of the key."""
    return {
        " ".join(key): {
            "per_second": statistics.median(one.rate for one in measured),
            "cpu_ms": 1000 * statistics.median(one.cpu for one in measured),
            "rounds": [one.rate for one in measured],
        }
        for key, measured in found.items()
    }


def run(plan: Plan, parent: Path | None) -> dict[str, Any]:
    """Run the benchmark in directories that are removed afterwards."""
    python = python_with_optuna() if plan.trials else None
    with ExitStack() as stack:
        places = {DISK: _temporary(stack, parent)}
        if os.access(SHARED_MEMORY, os.W_OK):
            places[MEMORY] = _temporary(stack, SHARED_MEMORY)
        found = Bench(plan, places, python).run()
        _tell("removing the populations")
    return {"plan": asdict(plan), "figures": medians(found)}


def _temporary(stack: ExitStack, parent: Path | None) -> Path:
    made = tempfile.TemporaryDirectory(prefix="genepool-bench-", dir=parent, ignore_cleanup_errors=True)
    return Path(stack.enter_context(made))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Evolution steps per second at zero training cost.")
    parser.add_argument("--quick", action="store_true", help="about a minute, without the largest population")
    parser.add_argument("--dir", type=Path, help="where the populations are made; the system's place for such things")
    options = parser.parse_args()
    results = run(QUICK if options.quick else Plan(), options.dir)
    text, results["bars"] = report(results)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "store.json").write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
