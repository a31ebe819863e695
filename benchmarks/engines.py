"""What an engine costs: local processes, Ray on a shared directory, and Ray through the server of the population.

Two things are measured, with equal workers on this machine and in rounds that take turns:

* Trainings of about five seconds, all of the same network (the only mutation changes nothing). A worker's cycle is the
  time between two of its results, so it holds the training and everything around it; throughput is what follows from
  the median cycle, and `beside` is the part of the cycle that was not the training itself.
* Steps that cost no training, which is all that an engine and a store can do in a second.

    python -m benchmarks.engines [--workers 2] [--rounds 3] [--seconds 60] [--out FILE]

Needs `pip install 'genepool[ray]'` and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.crew import measure
from benchmarks.seeding import seed_population
from benchmarks.steps import WARM_UP, Evolve, Stepper
from genepool.engines.ray_nodes import join
from genepool.engines.ray_service import Line, serve
from genepool.experiment import Experiment
from genepool.labour import accounts_of
from genepool.population import Files
from genepool.population.served import ServedFiles

ENGINES = {"processes": (), "ray": ("--engine", "ray"), "served": ("--engine", "ray", "--serve-population")}
WANTED = 5.0
POPULATION = 100


def run(directory: Path, *options: object) -> None:
    """`genepool run`, to its end."""
    words = [sys.executable, "-m", "genepool", "run", str(directory), *map(str, options)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")


def settings(steps: int) -> tuple[object, ...]:
    """All individuals alike, trained by the paper's rules."""
    return ("--preset", "faithful", "--config", CONFIG, "--steps", steps, "--population", 4)


def steps_of_five_seconds(folder: Path) -> int:
    """Measured with one worker, because machines differ."""
    steps = 2_000
    run(folder / "calibration", *settings(steps), "--workers", 1, "--individuals", 3, "--time", "10m")
    rows = Experiment.open(folder / "calibration").history().finished()
    return round(steps * WANTED / statistics.median(row.evaluation.seconds for row in rows))


def trainings(directory: Path, engine: str, steps: int, workers: int, seconds: float) -> dict[str, float]:
    """A run of so many seconds, and what its workers' cycles were."""
    run(directory, *settings(steps), "--workers", workers, "--time", f"{seconds}s", *ENGINES[engine])
    by_worker: dict[str, list[Any]] = defaultdict(list)
    for row in Experiment.open(directory).history().finished():
        by_worker[row.result.attempt.partition("-")[2]].append(row)
    cycles, beside = [], []
    for rows in by_worker.values():
        for before, after in pairwise(rows):
            cycles.append(after.result.finished - before.result.finished)
            beside.append(cycles[-1] - after.evaluation.seconds)
    cycle = statistics.median(cycles)
    return {"individuals_a_minute": 60 * workers / cycle, "cycle": cycle, "beside": statistics.median(beside)}


def steps_on_ray(ray: Any, root: Path, workers: int, seconds: float, service: Any) -> float:
    """Steps a second of tasks that all begin at the same moment."""

    def job(path: str, begin: float, actor: Any) -> float:
        files = Files() if actor is None else ServedFiles(Line(ray, actor))
        stepper = Stepper(Path(path), files)
        stepper.steps(WARM_UP)
        time.sleep(max(0.0, begin - time.time()))
        start = time.perf_counter()
        return stepper.seconds(seconds) / (time.perf_counter() - start)

    remote = ray.remote(job).options(num_cpus=0)
    begin = time.time() + 10
    return float(sum(ray.get([remote.remote(str(root), begin, service) for _ in range(workers)])))


def zero_cost_steps(ray: Any, folder: Path, workers: int, seconds: float) -> dict[str, float]:
    """Steps a second of each engine, each on a population of its own."""
    roots = {engine: folder / engine for engine in ENGINES}
    for root in roots.values():
        seed_population(root, POPULATION)
    [processes] = measure([Evolve(roots["processes"], "safe")] * workers, seconds)
    service = serve(ray, str(roots["served"]), accounts_of)
    try:
        return {
            "processes": processes.rate,
            "ray": steps_on_ray(ray, roots["ray"], workers, seconds, None),
            "served": steps_on_ray(ray, roots["served"], workers, seconds, service),
        }
    finally:
        ray.kill(service)


def medians(rounds: list[dict[str, Any]], pick: Callable[[dict[str, Any]], float]) -> float:
    return statistics.median(pick(one) for one in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "engines.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-engines-") as temporary:
        folder = Path(temporary)
        global CONFIG
        CONFIG = folder / "settings.toml"
        CONFIG.write_text("[mutation_odds]\nidentity = 1.0\n")
        steps = steps_of_five_seconds(folder)
        rounds = [
            {
                engine: trainings(folder / f"{engine}-{number}", engine, steps, asked.workers, asked.seconds)
                for engine in ENGINES
            }
            for number in range(asked.rounds)
        ]
        ray = join("local")
        zero = [
            zero_cost_steps(ray, folder / f"zero-{number}", asked.workers, min(asked.seconds, 10))
            for number in range(asked.rounds)
        ]
        ray.shutdown()
    figures = {
        engine: {
            **{name: medians(rounds, lambda one, e=engine, n=name: one[e][n]) for name in rounds[0][engine]},
            "zero_cost_steps_a_second": medians(zero, lambda one, e=engine: one[e]),
        }
        for engine in ENGINES
    }
    local = figures["processes"]["individuals_a_minute"]
    print(f"{asked.workers} workers, {steps} steps, {asked.rounds} rounds of {asked.seconds:g} s; medians")
    print(f"{'engine':10s} {'a minute':>9s} {'cost':>7s} {'cycle':>8s} {'beside':>9s} {'steps/s':>8s}")
    for engine, of in figures.items():
        cost = 1 - of["individuals_a_minute"] / local
        print(
            f"{engine:10s} {of['individuals_a_minute']:9.2f} {100 * cost:5.1f} % {of['cycle']:6.2f} s"
            f" {1000 * of['beside']:6.0f} ms {of['zero_cost_steps_a_second']:8.1f}"
        )
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"steps": steps, "workers": asked.workers, "figures": figures, "rounds": rounds}))


CONFIG = Path()

if __name__ == "__main__":
    main()
