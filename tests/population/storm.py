"""A storm over a real directory: real processes, SIGKILL and SIGSTOP at random moments, expected state kept outside.

    python -m tests.population.storm DIRECTORY [--seconds 60] [--workers 12] [--lease 1] [--seed 1] [--durability safe]

Three of four blows kill a worker, which is started again under a new name; the fourth stops it for a fifth of a lease,
for most of two or for three. At the end the survivors get two leases to clean up, and every invariant is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from genepool.population import DirectoryPopulation, Files
from genepool.population.check import check
from genepool.population.events import read_events

from .toy import ToyWorker


class Witness(dict[str, float]):
    """Remembers, outside the experiment, what a worker was told had been finished."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __setitem__(self, identity: str, fitness: float) -> None:
        super().__setitem__(identity, fitness)
        os.write(self._descriptor, f"{identity} {fitness!r}\n".encode())


def work(path: Path, size: int, durability: str, until: float | None = None) -> None:
    """One worker's life; a step takes a few milliseconds, so that blows fall everywhere."""
    rng = random.Random(os.urandom(8))
    population = DirectoryPopulation.open(path / "experiment", files=Files(durability=durability))
    worker = ToyWorker(population, rng, size, Witness(path / f"witness-{population.who}"))
    worker.hand_over = 0.05 if until is None else 0.0
    while until is None or time.monotonic() < until:
        worker.try_step()
        time.sleep(rng.random() * 0.002)


def spawn(path: Path, size: int, durability: str) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(path, size, durability)
        except BaseException as error:  # noqa: BLE001 - a worker that ends by itself is a finding
            (path / f"died-{os.getpid()}").write_text(repr(error))
        os._exit(1)
    return child


def blow(rng: random.Random, workers: list[int], stopped: dict[int, float], lease: float) -> bool:
    """Hits one worker; True if it has to be replaced."""
    victim = rng.choice(workers)
    if rng.random() < 0.75:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        workers.remove(victim)
        stopped.pop(victim, None)
        return True
    if victim not in stopped:
        os.kill(victim, signal.SIGSTOP)
        stopped[victim] = time.monotonic() + lease * rng.choice((0.2, 1.7, 3.0))
    return False


def storm(path: Path, *, seconds: float, workers: int, lease: float, seed: int, durability: str) -> dict[str, object]:
    """Runs a storm and returns the figures."""
    (path / "experiment").mkdir(parents=True)
    size = 4 * workers
    DirectoryPopulation.establish(path / "experiment", population_size=max(size, 400), lease=lease)
    rng = random.Random(seed)
    alive = [spawn(path, size, durability) for _ in range(workers)]
    stopped: dict[int, float] = {}
    kills = stops = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(rng.random() * 0.05)
        for worker in [worker for worker, wake in stopped.items() if wake < time.monotonic()]:
            os.kill(worker, signal.SIGCONT)
            del stopped[worker]
        before = len(stopped)
        if blow(rng, alive, stopped, lease):
            kills += 1
            alive.append(spawn(path, size, durability))
        stops += len(stopped) > before
    for worker in alive:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
    work(path, size, durability, until=time.monotonic() + 2.5 * lease + 1)
    return {"seed": seed, "kills": kills + len(alive), "stops": stops, **figures(path, durability)}


def figures(path: Path, durability: str) -> dict[str, object]:
    finished: dict[str, float] = {}
    for witness in path.glob("witness-*"):
        # The last line may be torn: what was not told completely was not told.
        lines = witness.read_text().split("\n")[:-1]
        finished.update({line.split()[0]: float(line.split()[1]) for line in lines})
    files = Files(durability=durability)
    report = check(path / "experiment", files=files, settled=True, finished=finished)
    events = [event.what for _, event in read_events(files, f"{path}/experiment/workers")]
    counted = {what: events.count(what) for what in ("finish", "kill", "collect", "take-over", "quarantine")}
    return {
        "acknowledged": len(finished),
        **counted,
        "living": report.census.living,
        "archived": report.fossils,
        "quarantined": report.census.quarantined,
        "torn lines": len(report.damaged_lines),
        "died by themselves": [died.read_text() for died in path.glob("died-*")],
        "violations": [f"{v.invariant} {v.place}: {v.text}" for v in report.violations],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durability", default="safe")
    options = vars(parser.parse_args())
    sys.stdout.write(json.dumps(storm(options.pop("directory"), **options)))


if __name__ == "__main__":
    main()
