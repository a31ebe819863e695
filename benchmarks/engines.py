"""What an engine costs: local processes, Ray on a shared directory, and Ray through the server of the population.

Two things are measured, with equal workers on this machine:

* Trainings of about five seconds, all of the same network (the only mutation changes nothing). Throughput is how many
  individuals a worker finishes between its first result and its last, so it holds the training and everything around
  it, but not the start of the engine; `beside` is the median of what lies between two results and is not training.
* Steps that cost no training, which is all that an engine and a store can do in a second.

Machines get faster and slower from minute to minute. Each run of an engine therefore stands between two of local
processes, and is compared with their mean; an engine's cost is the median of its rounds.

    python -m benchmarks.engines [--workers 2] [--rounds 4] [--seconds 35] [--out FILE]

Needs `pip install 'genepool[ray]'` and a machine that does nothing else, for about a quarter of an hour.
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
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.crew import measure
from benchmarks.seeding import seed_population
from benchmarks.steps import WARM_UP, Evolve, Stepper
from genepool.analysis import Row
from genepool.engines.ray_nodes import join
from genepool.engines.ray_service import Line, serve
from genepool.experiment import Experiment
from genepool.labour import accounts_of
from genepool.population import Files
from genepool.population.served import ServedFiles

ENGINES = {"processes": (), "ray": ("--engine", "ray"), "served": ("--engine", "ray", "--serve-population")}
BARS = {"ray": 0.05, "served": 0.10}
"""The share of the throughput that an engine may cost."""
WANTED = 5.0
"""Seconds of a training."""
POPULATION = 100


class Trainings(NamedTuple):
    """What the workers of a run did."""

    a_minute: float
    training: float
    """Seconds of one."""
    beside: float
    """Seconds between two, at a worker."""


def evolve(directory: Path, steps: int, workers: int, *options: object) -> list[Row]:
    """`genepool run`, to its end, with individuals that are all alike, trained by the paper's rules."""
    config = directory.parent / "settings.toml"
    config.write_text("[mutation_odds]\nidentity = 1.0\n")
    recipe = ("--preset", "faithful", "--config", config, "--steps", steps, "--population", 4, "--workers", workers)
    words = [sys.executable, "-m", "genepool", "run", str(directory), *map(str, (*recipe, *options))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    return Experiment.open(directory).history().finished()


def steps_of_a_training(folder: Path, workers: int) -> int:
    """Measured with as many workers at once, because machines differ."""
    steps = 2_000
    rows = evolve(folder / "calibration", steps, workers, "--individuals", 2 * workers, "--time", "10m")
    return round(steps * WANTED / statistics.median(row.evaluation.seconds for row in rows))


def trainings(rows: list[Row]) -> Trainings:
    """From the first result of each worker to its last."""
    by_worker: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.result.finished):
        by_worker[row.result.attempt.partition("-")[2]].append(row)
    pairs = [pair for of_one in by_worker.values() for pair in pairwise(of_one)]
    if any(len(of_one) < 2 for of_one in by_worker.values()):
        raise SystemExit("A worker has finished one training only: the machine is too busy, or --seconds too few.")
    rates = [
        (len(of_one) - 1) / (of_one[-1].result.finished - of_one[0].result.finished) for of_one in by_worker.values()
    ]
    return Trainings(
        a_minute=60 * sum(rates),
        training=statistics.median(row.evaluation.seconds for row in rows),
        beside=statistics.median(b.result.finished - a.result.finished - b.evaluation.seconds for a, b in pairs),
    )


def in_turn(number: int) -> list[str]:
    """The engines, another one first in each round."""
    names = list(ENGINES)
    return names[number % len(names) :] + names[: number % len(names)]


class Beside(NamedTuple):
    """A run of an engine, and how much faster it was than the local processes before and after it."""

    engine: str
    trainings: Trainings
    ratio: float


def runs_of_trainings(folder: Path, rounds: int, steps: int, workers: int, seconds: float) -> list[Beside]:
    """Local processes first, last, and between any two others."""

    def run(engine: str, place: str) -> Trainings:
        found = evolve(folder / f"{engine}-{place}", steps, workers, "--time", f"{seconds}s", *ENGINES[engine])
        return trainings(found)

    others = [engine for number in range(rounds) for engine in in_turn(number) if engine != "processes"]
    before, found = run("processes", "first"), []
    for place, engine in enumerate(others):
        here, after = run(engine, str(place)), run("processes", str(place))
        ratio = here.a_minute / statistics.mean((before.a_minute, after.a_minute))
        found += [Beside("processes", after, 1.0), Beside(engine, here, ratio)]
        print(f"{engine}: {here.a_minute:.1f} a minute, local processes {before.a_minute:.1f} and {after.a_minute:.1f}")
        before = after
    return found


def steps_on_ray(ray: Any, root: Path, workers: int, seconds: float, service: Any) -> float:
    """Steps a second of tasks that begin when all are ready."""

    def job(number: int) -> float:
        files = Files() if service is None else ServedFiles(Line(ray, service))
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
    """Steps a second of each engine, each on a population of its own."""
    found: dict[str, float] = {}
    for engine in in_turn(number):
        root = folder / f"zero-{engine}-{number}"
        seed_population(root, POPULATION)
        if engine == "processes":
            [together] = measure([Evolve(root, "safe")] * workers, seconds)
            found[engine] = together.rate
            continue
        service = serve(ray, str(root), accounts_of) if engine == "served" else None
        found[engine] = steps_on_ray(ray, root, workers, seconds, service)
        if service is not None:
            ray.kill(service)
    return found


def figures(runs: list[Beside], zero: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Medians."""
    return {
        engine: {
            **{name: statistics.median(getattr(one.trainings, name) for one in own) for name in Trainings._fields},
            "cost": 1 - statistics.median(one.ratio for one in own),
            "steps_a_second": statistics.median(one[engine] for one in zero),
        }
        for engine in ENGINES
        for own in [[one for one in runs if one.engine == engine]]
    }


def told(found: dict[str, dict[str, float]]) -> str:
    """The table, and whether the bars are met."""
    lines = [f"{'engine':10s} {'a minute':>9s} {'cost':>7s} {'training':>9s} {'beside':>9s} {'steps/s':>8s}"]
    for engine, of in found.items():
        lines.append(
            f"{engine:10s} {of['a_minute']:9.2f} {100 * of['cost']:5.1f} % {of['training']:7.2f} s"
            f" {1000 * of['beside']:6.0f} ms {of['steps_a_second']:8.1f}"
        )
    for engine, bar in BARS.items():
        cost = found[engine]["cost"]
        verdict = "met" if cost <= bar else "NOT MET"
        lines.append(f"{engine}: costs {100 * cost:.1f} % of the throughput, at most {100 * bar:.0f} %: {verdict}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=35.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "engines.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-engines-") as temporary:
        folder = Path(temporary)
        steps = steps_of_a_training(folder, asked.workers)
        runs = runs_of_trainings(folder, asked.rounds, steps, asked.workers, asked.seconds)
        ray = join("local")
        seconds = min(asked.seconds, 5.0)
        zero = [round_of_steps(ray, folder, number, asked.workers, seconds) for number in range(asked.rounds)]
        ray.shutdown()
    found = figures(runs, zero)
    print(f"{asked.workers} workers, {steps} steps, {asked.rounds} rounds of {asked.seconds:g} s; medians")
    print(told(found))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    each = [{"engine": one.engine, "ratio": one.ratio, **one.trainings._asdict()} for one in runs]
    document = {"steps": steps, "workers": asked.workers, "bars": BARS, "figures": found, "runs": each, "zero": zero}
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
