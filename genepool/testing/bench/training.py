"""The engine's benchmark: rounds, medians, ratios and the bars that they must reach."""

from __future__ import annotations

import math
import multiprocessing
import statistics
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from genepool.nn import is_mixed
from genepool.testing.bench import rounds
from genepool.testing.bench.networks import CONTESTANTS

CORES = 2
"""Workers at once; the ordinary way gets as many threads."""
INDIVIDUALS = {
    ("linear", 100): 40.0,
    ("one convolution", 100): 12.0,
    ("six convolutions", 100): 2.8,
    ("linear", 1000): 15.0,
    ("one convolution", 1000): 5.0,
    ("six convolutions", 1000): 2.0,
}
"""How many times the ordinary way's throughput is wanted, by network and steps."""
OVERHEAD = {"one convolution": 0.20, "six convolutions": 0.10}
LIMIT = {"six convolutions": 0.70, "resnet-20": 0.75, "wide": 0.85}
"""The share of the machine's matrix multiplication that is wanted."""
TUNED = 0.97

SEEDS = 6
"""Trainings each of the accuracy check: of three, chance alone makes differences of two points."""

Progress = Callable[[str], None]
Individuals = Callable[[str, int, int, str], tuple[float, float]]
"""Trains so many individuals of a network for so many steps in a precision, as a worker does: seconds for one, and the
share of overhead."""


class Benchmark:
    """Measures in rounds; every number is a list with one value a round."""

    def __init__(
        self, folder: Path, individuals: Individuals, *, repetitions: int, quick: bool, tell: Progress
    ) -> None:
        self._folder, self._train, self._repetitions = folder, individuals, 1 if quick else repetitions
        self._quick, self._tell = quick, tell
        self._seconds = 0.7 if quick else 4.0
        self.mixed = is_mixed(rounds.PRECISION, torch.device("cpu"))
        self.found: defaultdict[str, list[float]] = defaultdict(list)

    def run(self) -> dict[str, Any]:
        """All rounds, the accuracy check; then the medians and the bars."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(CORES, context, rounds.enter, (self._folder,)) as pool:
            for number in range(self._repetitions):
                self._individuals(pool, number)
                self._steps(pool, number)
                self._machine(pool, number)
            accuracy = {} if self._quick else self._accuracy(pool)
        return {
            "repetitions": self._repetitions,
            "mixed": self.mixed,
            "medians": {name: statistics.median(values) for name, values in self.found.items()},
            "rounds": dict(self.found),
            "accuracy": accuracy,
            "bars": self._bars(),
        }

    def _wanted(self) -> list[tuple[str, int]]:
        few = [("linear", 100), ("one convolution", 100)]
        return few if self._quick else list(INDIVIDUALS)

    def _individuals(self, pool: ProcessPoolExecutor, number: int) -> None:
        for name, steps in self._wanted():
            self._tell(f"round {number + 1}: whole individuals, {name}, {steps} steps")
            for precision, what in self._precisions(name):
                seconds, overhead = self._workers(pool, name, steps, precision)
                self.found[f"{what} {name} {steps}"].append(seconds)
                if what == "individual":
                    self.found[f"overhead {name} {steps}"].append(overhead)
            self.found[f"ordinary {name} {steps}"].append(rounds.ordinary_individual(self._folder, name, steps))

    def _precisions(self, name: str) -> list[tuple[str, str]]:
        """What individuals of a network are trained in, and how that is called here: float32 too, where it matters."""
        usual: list[tuple[str, str]] = [(rounds.PRECISION, "individual")]
        return [*usual, ("float32", "float32")] if self.mixed and name in LIMIT else usual

    def _workers(self, pool: ProcessPoolExecutor, name: str, steps: int, precision: str) -> tuple[float, float]:
        """Seconds of the machine for one individual, and the share of overhead."""
        count = {"linear": 8}.get(name, 3) if steps == 100 else 1  # a single short one is at the mercy of the moment
        jobs = [pool.submit(self._train, name, steps, count, precision) for _ in range(CORES)]
        seconds, overhead = zip(*(job.result() for job in jobs), strict=True)
        return statistics.mean(seconds) / CORES, statistics.mean(overhead)

    def _steps(self, pool: ProcessPoolExecutor, number: int) -> None:
        for name in CONTESTANTS:
            self._tell(f"round {number + 1}: steps beside the hand-tuned loop, {name}")
            ours, tuned = pool.submit(rounds.steps_a_second, name, 2 * self._seconds).result()
            self.found[f"tuned {name}"].append(ours / tuned)

    def _machine(self, pool: ProcessPoolExecutor, number: int) -> None:
        """The matrix multiplication before and after each network: the machine may change in between."""
        for name in LIMIT:
            self._tell(f"round {number + 1}: beside the machine's matrix multiplication, {name}")
            order = ("sgemm", name, f"{name}{rounds.KERNELS}", "sgemm")
            before, ours, kernels, after = (self._both(pool, what) for what in order)
            self.found[f"limit {name}"].append(ours / ((before + after) / 2))
            self.found[f"kernels {name}"].append(kernels / ((before + after) / 2))

    def _accuracy(self, pool: ProcessPoolExecutor) -> dict[str, Any]:
        """Fitness of the same network and recipe, trained by us and by a plain loop, with several seeds each."""
        self._tell(f"accuracy of {rounds.NETWORK} after {rounds.STEPS} steps, beside a plain loop")
        jobs = [
            (pool.submit(rounds.ours, seed), pool.submit(rounds.plain, self._folder, seed)) for seed in range(SEEDS)
        ]
        ours, plain = ([job.result() for job in side] for side in zip(*jobs, strict=True))
        found: dict[str, Any] = {"network": rounds.NETWORK, "steps": rounds.STEPS, "ours": ours, "plain": plain}
        for name, values in (("ours", ours), ("plain", plain)):
            found |= {f"{name}_mean": statistics.mean(values), f"{name}_spread": statistics.stdev(values)}
        variance = (statistics.variance(ours) + statistics.variance(plain)) / SEEDS
        return {**found, "difference": found["ours_mean"] - found["plain_mean"], "error": math.sqrt(variance)}

    def _both(self, pool: ProcessPoolExecutor, name: str) -> float:
        return sum(job.result() for job in [pool.submit(rounds.gflops, name, self._seconds) for _ in range(CORES)])

    def _bars(self) -> list[dict[str, Any]]:
        median = {name: statistics.median(values) for name, values in self.found.items()}
        bars = []
        for name, steps in self._wanted():
            ratio = median[f"ordinary {name} {steps}"] / median[f"individual {name} {steps}"]
            bars.append(_bar(f"the ordinary way: {name}, {steps} steps", ratio, INDIVIDUALS[name, steps]))
        for name in CONTESTANTS:
            bars.append(_bar(f"a hand-tuned loop: {name}", median[f"tuned {name}"], TUNED))
        for name, wanted in LIMIT.items():
            bars.append(_bar(f"matrix multiplication: {name}", median[f"limit {name}"], wanted))
        for name, most in OVERHEAD.items():
            if (name, 100) not in self._wanted():
                continue
            share = median[f"overhead {name} 100"]
            bars.append(
                {"what": f"overhead, at most: {name}, 100 steps", "ratio": share, "bar": most, "met": share <= most}
            )
        return bars


def _bar(what: str, ratio: float, bar: float) -> dict[str, Any]:
    return {"what": what, "ratio": ratio, "bar": bar, "met": ratio >= bar}
