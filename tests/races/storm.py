"""A storm: real worker processes on a real disk, killed and frozen at random, and nothing may be lost.

    python -m tests.races.storm                     the full storm: local disk and tmpfs, about ten minutes
    python -m tests.races.storm --short FOLDER      twenty seconds in one folder

Prints a table and the seeds; exits with 1 if there is a violation. The seed repeats the order of signals, not of system
calls; tests/support/store_simulation.py does that.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import mmap
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from genepool.population import DirectoryPopulation
from tests.races.dashboard_observer import Onlooker
from tests.races.findings import Verdict, is_settled, judge
from tests.races.plan import Plan
from tests.races.storm_worker import live
from tests.races.worker_processes import Crowd

RESULTS = Path("benchmarks/results/storm.json")
MEMORY = Path("/dev/shm")
KILLS, STOPS = 1_000, 250
SHORT_KILLS, SHORT_STOPS = 60, 15
PATIENCE = 200.0


def storm(folder: Path, plan: Plan) -> Verdict:
    """Run one storm in an empty folder."""
    start = time.monotonic()
    population, testimonies = folder / "population", folder / "testimonies"
    population.mkdir()
    testimonies.mkdir()
    DirectoryPopulation.establish(population, population_size=plan.size, lease=plan.lease)
    calm = mmap.mmap(-1, 1)
    crowd = Crowd(plan, lambda number: live(population, testimonies / str(number), plan, number, calm))
    onlooker = Onlooker(population)
    try:
        crowd.start()
        crowd.settle(plan.warm_up)
        crowd.attack()
        calm[0] = 1
        crowd.settle(2 * plan.lease + 1)
        deadline = time.monotonic() + PATIENCE
        while not is_settled(population, plan, crowd.alive) and time.monotonic() < deadline:
            crowd.settle(plan.lease)  # on a busy machine heartbeats are late, and a late worker takes over nothing
        crowd.end()
        feed_figures, seen = onlooker.verdict()
    finally:
        crowd.end_at_once()
        onlooker.end_at_once()
    verdict = judge(population, testimonies, plan, crowd.unexpected_exits)
    blows = {
        "seed": plan.seed,
        "SIGKILL": crowd.blows["kill"],
        "SIGKILL at a rename": crowd.blows["at a rename"],
        "SIGSTOP": crowd.blows["stop"],
        "SIGTERM": crowd.blows["terminate"],
    }
    figures = {**blows, **verdict.figures, **feed_figures, "seconds": round(time.monotonic() - start)}
    return Verdict(figures=figures, faults=[*verdict.faults, *seen])


def file_system(folder: Path) -> str:
    """Return the type of a folder's file system, as the kernel calls it."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(len(place), kind) for _, place, kind, *_ in mounts if folder.resolve().is_relative_to(place)]
    return max(above)[1]


def full(seed: int, kills: int, stops: int) -> int:
    """Run storms on the local disk and in memory, print and write the figures, and return the exit code."""
    Path("build").mkdir(exist_ok=True)
    places = [Path("build"), *([MEMORY] if MEMORY.is_dir() and file_system(MEMORY) == "tmpfs" else [])]
    verdicts: dict[str, Verdict] = {}
    for number, place in enumerate(places):
        folder = Path(tempfile.mkdtemp(prefix="storm-", dir=place))
        name = file_system(folder)
        print(f"storm on {name}, seed {seed + number}, {kills} kills and {stops} stops at least ...", flush=True)
        verdicts[name] = storm(folder, Plan(seed=seed + number, kills=kills, stops=stops))
        if not verdicts[name].faults:
            shutil.rmtree(folder)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({name: verdict.figures for name, verdict in verdicts.items()}, indent=2) + "\n")
    return report(verdicts)


def report(verdicts: dict[str, Verdict]) -> int:
    """Print the table and the violations; return the exit code."""
    print(f"{'':24}" + "".join(f"{name:>10}" for name in verdicts))
    for row in next(iter(verdicts.values())).figures:
        print(f"{row:24}" + "".join(f"{verdict.figures[row]:>10}" for verdict in verdicts.values()))
    faults = [fault for verdict in verdicts.values() for fault in verdict.faults]
    for invariant, sentence in faults[:100]:
        print(f"{invariant}: {sentence}")
    print("no violations" if not faults else f"{len(faults)} violations")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill and freeze worker processes, and check that nothing is lost.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--short", type=Path, metavar="FOLDER", help="run a short storm in this folder only")
    parser.add_argument("--kills", type=int, default=KILLS, help="the number per file system")
    parser.add_argument("--stops", type=int, default=STOPS, help="the number per file system")
    options = parser.parse_args()
    if options.short is None:
        return full(options.seed, options.kills, options.stops)
    plan = Plan(seed=options.seed, kills=SHORT_KILLS, stops=SHORT_STOPS)
    return report({file_system(options.short): storm(options.short, plan)})


if __name__ == "__main__":
    sys.exit(main())
