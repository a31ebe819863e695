"""What an engine costs: local processes, Ray on a shared directory, and Ray through the server of the population.

Two things are measured, with equal workers on this machine:

* Trainings of about five seconds, all of the same network (the only mutation changes nothing). Throughput is how many
  individuals a worker finishes between its first result and its last, so it holds the training and everything around
  it, but not the start of the engine.
* Steps that cost no training, which is all that an engine and a store can do in a second.

Machines that others share get faster and slower by a fifth within minutes. All engines are therefore started at the
same time, and in turns of a few seconds all processes of all engines but one are frozen (SIGSTOP); what counts is the
time in which an engine's were not.

    python -m benchmarks.engines [--workers 2] [--seconds 150] [--turn 5] [--out FILE]

Needs Linux, `pip install 'genepool[ray]'` and a machine that does nothing else, for about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.crew import measure
from benchmarks.seeding import seed_population
from benchmarks.steps import WARM_UP, Evolve, Stepper
from genepool.engines.ray_nodes import join
from genepool.engines.ray_service import Line, serve
from genepool.errors import GenepoolError
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
ZERO = 5.0
"""Seconds of steps without training."""


class Trainings(NamedTuple):
    """What the workers of an engine did."""

    individuals: int
    a_minute: float
    halves: tuple[float, float]
    """The same in the first half of the time and in the second."""


def command(directory: Path, steps: int, workers: int, *options: object) -> list[str]:
    """`genepool run` with individuals that are all alike, trained by the paper's rules."""
    config = directory.parent / "settings.toml"
    config.write_text("[mutation_odds]\nidentity = 1.0\n")
    recipe = ("--preset", "faithful", "--config", config, "--steps", steps, "--population", 4, "--workers", workers)
    return [sys.executable, "-m", "genepool", "run", str(directory), *map(str, (*recipe, *options))]


def results(directory: Path) -> dict[str, list[float]]:
    """When each worker finished its trainings."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in Experiment.open(directory).history().finished():
        if row.result is not None:
            found[row.result.attempt.partition("-")[2]].append(row.result.finished)
    return {who: sorted(times) for who, times in found.items()}


def steps_of_a_training(folder: Path, workers: int) -> int:
    """Measured with as many workers at once, because machines differ."""
    steps, directory = 2_000, folder / "calibration"
    words = command(directory, steps, workers, "--individuals", 4 * workers, "--time", "10m")
    subprocess.run(words, capture_output=True, check=True)
    rows = Experiment.open(directory).history().finished()
    return round(steps * WANTED / statistics.median(row.evaluation.seconds for row in rows))


class Runner:
    """`genepool run` with one engine, which goes on until it is ended, and can be frozen with all its processes."""

    def __init__(self, engine: str, folder: Path, steps: int, workers: int) -> None:
        self.engine, self.directory = engine, folder / engine
        words = command(self.directory, steps, workers, "--time", "2h", *ENGINES[engine])
        self._log = (folder / f"{engine}.log").open("wb")
        self._process = subprocess.Popen(words, stdout=self._log, stderr=self._log, start_new_session=True)
        self._workers = workers
        self._turns: list[tuple[float, float]] = []

    def wait_until_warm(self, patience: float = 180.0) -> None:
        """Until every worker has finished somebody."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(GenepoolError):
                if len(results(self.directory)) >= self._workers:
                    return
            time.sleep(0.5)
        raise SystemExit(f"{self.engine}: its workers did not begin in {patience:.0f} s; see {self._log.name}")

    def turn(self, seconds: float) -> None:
        """Lets it work for so long."""
        self.signal(signal.SIGCONT)
        start = time.time()
        time.sleep(seconds)
        self.signal(signal.SIGSTOP)
        self._turns.append((start, time.time()))

    def signal(self, number: int) -> None:
        """To all its processes: Ray starts daemons, and these start workers."""
        for process in descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def end(self) -> None:
        self.signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=120)
        self._log.close()

    def trainings(self) -> Trainings:
        """What came of its turns, counted in the time in which it was not frozen."""
        total = sum(stop - start for start, stop in self._turns)
        workers = [
            [moment for moment in map(self._active, times) if moment is not None]
            for times in results(self.directory).values()
        ]
        return Trainings(
            individuals=sum(map(len, workers)),
            a_minute=rate(workers),
            halves=(
                rate([[moment for moment in of if moment <= total / 2] for of in workers]),
                rate([[moment for moment in of if moment > total / 2] for of in workers]),
            ),
        )

    def _active(self, wall: float) -> float | None:
        """How long it had worked at a moment of the wall clock; None before its first turn and after its last."""
        before = 0.0
        for start, stop in self._turns:
            if start <= wall <= stop + 0.1:
                return before + min(wall, stop) - start
            before += stop - start
        return None


def descendants(process: int) -> list[int]:
    """It and all that it or they have started."""
    parents: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.read_text().rpartition(")")[2].split()[1])].append(int(path.parent.name))
    found = [process]
    for one in found:
        found += parents[one]
    return found


def rate(workers: list[list[float]]) -> float:
    """Individuals a minute of all together, from the first result of each to its last."""
    return 60 * sum((len(times) - 1) / (times[-1] - times[0]) for times in workers if len(times) > 1)


def in_turn(number: int) -> list[str]:
    """The engines, another one first in each round."""
    names = list(ENGINES)
    return names[number % len(names) :] + names[: number % len(names)]


def take_turns(folder: Path, steps: int, workers: int, seconds: float, turn: float) -> dict[str, Trainings]:
    """All engines at once, but for each moment all of them but one are frozen."""
    runners: dict[str, Runner] = {}
    try:
        for engine in ENGINES:
            runners[engine] = Runner(engine, folder, steps, workers)
            runners[engine].wait_until_warm()
            runners[engine].signal(signal.SIGSTOP)
        for number in range(round(seconds / turn)):
            for engine in in_turn(number):
                runners[engine].turn(turn)
    finally:
        for runner in runners.values():
            runner.end()
    return {engine: runner.trainings() for engine, runner in runners.items()}


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


def figures(found: dict[str, Trainings], zero: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """With what each engine costs, in all and in each half of the time."""
    base = found["processes"]
    return {
        engine: {
            "individuals": of.individuals,
            "a_minute": of.a_minute,
            "cost": 1 - of.a_minute / base.a_minute,
            "cost_first_half": 1 - of.halves[0] / base.halves[0],
            "cost_second_half": 1 - of.halves[1] / base.halves[1],
            "steps_a_second": statistics.median(one[engine] for one in zero),
        }
        for engine, of in found.items()
    }


def told(found: dict[str, dict[str, float]]) -> str:
    """The table, and whether the bars are met."""
    lines = [f"{'engine':10s} {'trained':>8s} {'a minute':>9s} {'cost':>7s} {'in halves':>16s} {'steps/s':>8s}"]
    for engine, of in found.items():
        halves = f"{100 * of['cost_first_half']:.1f} and {100 * of['cost_second_half']:.1f} %"
        lines.append(
            f"{engine:10s} {of['individuals']:8.0f} {of['a_minute']:9.2f} {100 * of['cost']:5.1f} % {halves:>16s}"
            f" {of['steps_a_second']:8.1f}"
        )
    for engine, bar in BARS.items():
        cost = found[engine]["cost"]
        verdict = "met" if cost <= bar else "NOT MET"
        lines.append(f"{engine}: costs {100 * cost:.1f} % of the throughput, at most {100 * bar:.0f} %: {verdict}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=150.0, help="for each engine")
    parser.add_argument("--turn", type=float, default=5.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "engines.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-engines-") as temporary:
        folder = Path(temporary)
        steps = steps_of_a_training(folder, asked.workers)
        trained = take_turns(folder, steps, asked.workers, asked.seconds, asked.turn)
        ray = join("local")
        zero = [round_of_steps(ray, folder, number, asked.workers, ZERO) for number in range(len(ENGINES))]
        ray.shutdown()
    found = figures(trained, zero)
    print(f"{asked.workers} workers, trainings of {steps} steps, {asked.seconds:g} s each in turns of {asked.turn:g} s")
    print(told(found))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"steps": steps, "workers": asked.workers, "bars": BARS, "figures": found, "zero": zero}
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
