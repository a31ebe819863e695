"""The worker benchmark: local processes, Ray on a shared directory, and Ray through the server of the population.

Two things are measured, with equal workers on this machine:

* Trainings of about five seconds, all of the same network (the only mutation is `identity`). Throughput is the number
  of individuals that a worker finishes between its first result and its last, so it includes the training and all its
  overhead, but not the start of the pool.
* Steps without training: the most that a pool and a store can do per second.

The speed of shared machines changes by a fifth within minutes. Pools therefore alternate every half minute, round after
round, each time in another order; only pools of the same round are compared, and the median of the rounds counts. A
pool is started again each time, and its clock starts when every worker has finished an individual.

    python -m benchmarks.worker_pools [--workers 2] [--rounds 6] [--seconds 30] [--out FILE]

Needs `pip install 'genepool[ray]'` and a quiet machine for a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.seeding import seed_population
from benchmarks.simultaneous import measure
from benchmarks.steps import WARM_UP, Evolve, Stepper
from genepool.errors import GenepoolError
from genepool.experiment import Experiment
from genepool.experiment.worker_process import accounts_of
from genepool.population import Files, ServedFiles
from genepool.workers.ray.nodes import join
from genepool.workers.ray.service import ServiceConnection, serve

POOLS = {"processes": (), "ray": ("--engine", "ray"), "served": ("--engine", "ray", "--serve-population")}
BARS = {"ray": 0.05, "served": 0.10}
"""The largest acceptable loss of throughput."""
WANTED = 5.0
"""Seconds of a training."""
POPULATION = 100
ZERO = 5.0
"""Seconds of steps without training."""


def command(directory: Path, steps: int, workers: int, *options: object) -> list[str]:
    """`genepool run` with identical individuals, trained by the paper's rules."""
    config = directory.parent / "settings.toml"
    config.write_text("[breeding.odds]\nidentity = 1.0\n")
    recipe = ("--preset", "faithful", "--config", config, "--steps", steps, "--population", 4, "--workers", workers)
    return [sys.executable, "-m", "genepool", "run", str(directory), *map(str, (*recipe, *options))]


def results(directory: Path) -> dict[str, list[float]]:
    """Return when each worker finished its trainings."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in Experiment.open(directory).history().finished():
        if row.result is not None:
            found[row.result.attempt.partition("-")[2]].append(row.result.finished)
    return {who: sorted(times) for who, times in found.items()}


def steps_of_a_training(folder: Path, workers: int) -> int:
    """Measure the number of steps with that many workers at once, because machines differ."""
    steps, directory = 2_000, folder / "calibration"
    words = command(directory, steps, workers, "--individuals", 4 * workers, "--time", "10m")
    subprocess.run(words, capture_output=True, check=True)
    rows = Experiment.open(directory).history().finished()
    return round(steps * WANTED / statistics.median(row.evaluation.seconds for row in rows))


class PoolRun:
    """`genepool run` with one pool for a while."""

    def __init__(self, pool: str, directory: Path, steps: int, workers: int) -> None:
        self._pool, self._directory, self._workers = pool, directory, workers
        words = command(directory, steps, workers, "--time", "2h", *POOLS[pool])
        self._log = directory.with_suffix(".log").open("wb")
        self._process = subprocess.Popen(words, stdout=self._log, stderr=self._log)

    def rate(self, seconds: float) -> float:
        """Return the individuals per minute during that time, then stop the run."""
        try:
            self._wait_until_warm()
            start = time.time()
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=120)
            self._log.close()
        end = start + seconds
        return rate([[moment for moment in of if start <= moment <= end] for of in results(self._directory).values()])

    def _wait_until_warm(self, patience: float = 180.0) -> None:
        """Wait until every worker has finished an individual."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(GenepoolError):
                if len(results(self._directory)) >= self._workers:
                    return
            time.sleep(0.5)
        raise SystemExit(f"{self._pool}: its workers did not start within {patience:.0f} s; see {self._log.name}")


def rate(workers: list[list[float]]) -> float:
    """Return the individuals per minute of all workers, from the first result of each to its last."""
    return 60 * sum((len(times) - 1) / (times[-1] - times[0]) for times in workers if len(times) > 1)


def rotated(number: int) -> list[str]:
    """Return the pools, starting with another one in each round."""
    names = list(POOLS)
    return names[number % len(names) :] + names[: number % len(names)]


def round_of_trainings(folder: Path, number: int, steps: int, workers: int, seconds: float) -> dict[str, float]:
    """Return the individuals per minute of each pool, one after the other."""
    found: dict[str, float] = {}
    for pool in rotated(number):
        found[pool] = PoolRun(pool, folder / f"{pool}-{number}", steps, workers).rate(seconds)
        print(f"round {number + 1}: {pool}: {found[pool]:.2f} per minute", file=sys.stderr, flush=True)
    return found


def steps_on_ray(ray: Any, root: Path, workers: int, seconds: float, service: Any) -> float:
    """Return the steps per second of tasks that start when all are ready."""

    def job(number: int) -> float:
        files = Files() if service is None else ServedFiles(ServiceConnection(ray, service))
        stepper = Stepper(root, files)
        stepper.steps(WARM_UP)
        Path(f"{root}.ready-{number}").touch()
        while not all(Path(f"{root}.ready-{other}").exists() for other in range(workers)):
            time.sleep(0.01)
        start = time.perf_counter()
        return stepper.seconds(seconds) / (time.perf_counter() - start)

    remote = ray.remote(job).options(num_cpus=0)
    return float(sum(ray.get([remote.remote(number) for number in range(workers)])))


def round_of_steps(ray: Any, folder: Path, number: int, workers: int, seconds: float) -> dict[str, float]:
    """Return the steps per second of each pool, each on its own population."""
    found: dict[str, float] = {}
    for pool in rotated(number):
        root = folder / f"zero-{pool}-{number}"
        seed_population(root, POPULATION)
        if pool == "processes":
            [together] = measure([Evolve(root, "safe")] * workers, seconds)
            found[pool] = together.rate
            continue
        service = serve(ray, str(root), accounts_of) if pool == "served" else None
        found[pool] = steps_on_ray(ray, root, workers, seconds, service)
        if service is not None:
            ray.kill(service)
    return found


def figures(trained: list[dict[str, float]], zero: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Add the ratio of each pool to local processes of the same round: per round, and the median."""
    found: dict[str, dict[str, Any]] = {}
    for pool in POOLS:
        costs = [1 - one[pool] / one["processes"] for one in trained]
        found[pool] = {
            "per_minute": statistics.median(one[pool] for one in trained),
            "cost": statistics.median(costs),
            "costs": costs,
            "steps_per_second": statistics.median(one[pool] for one in zero),
        }
    return found


def table_of(found: dict[str, dict[str, Any]]) -> str:
    """Return the table, and whether the targets are met."""
    lines = [f"{'pool':10s} {'per minute':>10s} {'cost':>7s} {'steps/s':>8s}   cost in each round"]
    for pool, of in found.items():
        rounds = ", ".join(f"{100 * overhead:.1f}" for overhead in of["costs"]) + " %" if pool in BARS else ""
        numbers = f"{of['per_minute']:10.2f} {100 * of['cost']:5.1f} % {of['steps_per_second']:8.1f}"
        lines.append(f"{pool:10s} {numbers}   {rounds}".rstrip())
    for pool, bar in BARS.items():
        overhead = found[pool]["cost"]
        verdict = "met" if overhead <= bar else "NOT MET"
        lines.append(f"{pool}: costs {100 * overhead:.1f} % of the throughput, at most {100 * bar:.0f} %: {verdict}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds per pool and round")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "workers.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-engines-") as temporary:
        folder = Path(temporary)
        steps = steps_of_a_training(folder, asked.workers)
        trained = [
            round_of_trainings(folder, number, steps, asked.workers, asked.seconds) for number in range(asked.rounds)
        ]
        ray = join("local")
        zero = [round_of_steps(ray, folder, number, asked.workers, ZERO) for number in range(len(POOLS))]
        ray.shutdown()
    found = figures(trained, zero)
    print(f"{asked.workers} workers, trainings of {steps} steps, {asked.rounds} rounds of {asked.seconds:g} s each")
    print(table_of(found))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"steps": steps, "workers": asked.workers, "bars": BARS, "figures": found, "zero": zero}
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
