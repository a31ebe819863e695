"""The engine's benchmark: rounds, medians, ratios and the bars that they must reach."""

from __future__ import annotations

import multiprocessing
import statistics
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from genepool.nn.bench import rounds
from genepool.nn.bench.plain import CONTESTANTS

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

Progress = Callable[[str], None]


class Benchmark:
    """Measures in rounds; every number is a list with one value a round."""

    def __init__(self, folder: Path, *, repetitions: int, short: bool, tell: Progress) -> None:
        self._folder, self._repetitions, self._short, self._tell = folder, repetitions, short, tell
        self._seconds = 1.0 if short else 4.0
        self.found: defaultdict[str, list[float]] = defaultdict(list)

    def run(self) -> dict[str, Any]:
        """All rounds; then the medians and the bars."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(CORES, context, rounds.enter, (self._folder,)) as pool:
            for number in range(self._repetitions):
                self._individuals(pool, number)
                self._steps(pool, number)
                self._machine(pool, number)
        return {"medians": {name: statistics.median(v) for name, v in self.found.items()}, "bars": self._bars()}

    def _wanted(self) -> list[tuple[str, int]]:
        return [key for key in INDIVIDUALS if not self._short or key[1] == 100]

    def _individuals(self, pool: ProcessPoolExecutor, number: int) -> None:
        for name, steps in self._wanted():
            self._tell(f"round {number + 1}: whole individuals, {name}, {steps} steps")
            count = {"linear": 8, "one convolution": 3}.get(name, 1) if steps == 100 else 1
            jobs = [pool.submit(rounds.train_individuals, name, steps, count) for _ in range(CORES)]
            seconds, overhead = zip(*(job.result() for job in jobs), strict=True)
            self.found[f"individual {name} {steps}"].append(statistics.mean(seconds) / CORES)
            self.found[f"overhead {name} {steps}"].append(statistics.mean(overhead))
            self.found[f"ordinary {name} {steps}"].append(rounds.ordinary_individual(self._folder, name, steps))

    def _steps(self, pool: ProcessPoolExecutor, number: int) -> None:
        for name in CONTESTANTS:
            self._tell(f"round {number + 1}: steps beside the hand-tuned loop, {name}")
            ours, tuned = pool.submit(rounds.steps_a_second, name, 2 * self._seconds).result()
            self.found[f"tuned {name}"].append(ours / tuned)

    def _machine(self, pool: ProcessPoolExecutor, number: int) -> None:
        """The matrix multiplication before and after each network: the machine may change in between."""
        for name in LIMIT:
            self._tell(f"round {number + 1}: beside the machine's matrix multiplication, {name}")
            before, ours, after = (self._both(pool, what) for what in ("sgemm", name, "sgemm"))
            self.found[f"limit {name}"].append(ours / ((before + after) / 2))

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
            share = median[f"overhead {name} 100"]
            bars.append(
                {"what": f"overhead, at most: {name}, 100 steps", "ratio": share, "bar": most, "met": share <= most}
            )
        return bars


def _bar(what: str, ratio: float, bar: float) -> dict[str, Any]:
    return {"what": what, "ratio": ratio, "bar": bar, "met": ratio >= bar}
