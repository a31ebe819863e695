"""The training benchmark: rounds, medians, ratios and their targets; and individuals trained by the real worker."""

from __future__ import annotations

import math
import multiprocessing
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import torch

from genepool.dna import DNA
from genepool.evaluation import Evaluator, Limits, Observer, Trained, Training, TrainingRequest, ignore
from genepool.evolution import Founder, Reproduction, Surroundings, Worker
from genepool.experiment import Experiment
from genepool.nn import TorchEvaluator, choose_device, is_mixed
from genepool.settings import Settings, changed
from genepool.testing.bench import rounds
from genepool.testing.bench.baseline import NETWORKS
from genepool.testing.bench.rounds import IMAGES_PER_STEP, images

CORES = 2  # workers; the baseline gets as many threads
INDIVIDUALS = {
    ("linear", 100): 40.0,
    ("one convolution", 100): 12.0,
    ("six convolutions", 100): 2.8,
    ("linear", 1000): 15.0,
    ("one convolution", 1000): 5.0,
    ("six convolutions", 1000): 2.0,
}
"""The target throughput in multiples of the baseline's, by network and steps."""
OVERHEAD = {"one convolution": 0.20, "six convolutions": 0.10}
LIMIT = {"six convolutions": 0.70, "resnet-20": 0.75, "wide": 0.85}
"""The target speed as a fraction of that of a matrix multiplication."""
TUNED = 0.97

SEEDS = 6  # trainings per side of the accuracy check: with three, differences of two points occur by chance

Progress = Callable[[str], None]


class Benchmark:
    """Measures in rounds; every result is a list with one value per round."""

    def __init__(self, folder: Path, *, repetitions: int, quick: bool, progress: Progress) -> None:
        self._folder, self._repetitions = folder, 1 if quick else repetitions
        self._quick, self._progress = quick, progress
        self._seconds = 0.7 if quick else 4.0
        self.mixed = is_mixed(rounds.PRECISION, torch.device("cpu"))
        self.found: defaultdict[str, list[float]] = defaultdict(list)

    def run(self) -> dict[str, Any]:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(CORES, context, rounds.enter, (self._folder,)) as pool:
            for number in range(self._repetitions):
                self._individuals(pool, number)
                self._steps(pool, number)
                self._matrix_multiplication(pool, number)
            accuracy = {} if self._quick else self._accuracy(pool)
        medians = {name: statistics.median(values) for name, values in self.found.items()}
        return {
            "repetitions": self._repetitions,
            "mixed": self.mixed,
            "medians": medians,
            "rounds": dict(self.found),
            "accuracy": accuracy,
            "bars": self._bars(medians),
        }

    def _wanted(self) -> list[tuple[str, int]]:
        return [("linear", 100), ("one convolution", 100)] if self._quick else list(INDIVIDUALS)

    def _individuals(self, pool: ProcessPoolExecutor, number: int) -> None:
        for name, steps in self._wanted():
            self._progress(f"round {number + 1}: individuals, {name}, {steps} steps")
            for precision, what in self._precisions(name):
                seconds, overhead = self._workers(pool, name, steps, precision)
                self.found[f"{what} {name} {steps}"].append(seconds)
                if what == "individual":
                    self.found[f"overhead {name} {steps}"].append(overhead)
            self.found[f"baseline {name} {steps}"].append(rounds.baseline_individual(self._folder, name, steps))

    def _precisions(self, name: str) -> list[tuple[str, str]]:
        """Return the precisions to train a network in and their names here: also float32 if it differs."""
        usual: list[tuple[str, str]] = [(rounds.PRECISION, "individual")]
        return [*usual, ("float32", "float32")] if self.mixed and name in LIMIT else usual

    def _workers(self, pool: ProcessPoolExecutor, name: str, steps: int, precision: str) -> tuple[float, float]:
        """Return the seconds per individual, with all cores busy, and the fraction of overhead."""
        count = {"linear": 8}.get(name, 3) if steps == 100 else 1  # a single short one varies too much
        jobs = [pool.submit(train_individuals, name, steps, count, precision) for _ in range(CORES)]
        seconds, overhead = zip(*(job.result() for job in jobs), strict=True)
        return statistics.mean(seconds) / CORES, statistics.mean(overhead)

    def _steps(self, pool: ProcessPoolExecutor, number: int) -> None:
        for name in NETWORKS:
            self._progress(f"round {number + 1}: steps, compared with the hand-tuned loop, {name}")
            ours, tuned = pool.submit(rounds.steps_per_second, name, 2 * self._seconds).result()
            self.found[f"tuned {name}"].append(ours / tuned)

    def _matrix_multiplication(self, pool: ProcessPoolExecutor, number: int) -> None:
        """Time a matrix multiplication before and after each network, since the machine's speed may change."""
        for name in LIMIT:
            self._progress(f"round {number + 1}: speed, compared with the matrix multiplication, {name}")
            order = ("sgemm", name, f"{name}{rounds.KERNELS}", "sgemm")
            before, ours, kernels, after = (self._both(pool, what) for what in order)
            self.found[f"limit {name}"].append(ours / ((before + after) / 2))
            self.found[f"kernels {name}"].append(kernels / ((before + after) / 2))

    def _accuracy(self, pool: ProcessPoolExecutor) -> dict[str, Any]:
        """Compare the fitness of a network trained by us and by a plain loop, with several seeds each."""
        self._progress(f"accuracy of {rounds.NETWORK} after {rounds.STEPS} steps, compared with a plain loop")
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

    def _bars(self, median: dict[str, float]) -> list[dict[str, Any]]:
        bars = []
        for name, steps in self._wanted():
            ratio = median[f"baseline {name} {steps}"] / median[f"individual {name} {steps}"]
            bars.append(_bar(f"baseline: {name}, {steps} steps", ratio, INDIVIDUALS[name, steps]))
        bars += [_bar(f"a hand-tuned loop: {name}", median[f"tuned {name}"], TUNED) for name in NETWORKS]
        bars += [_bar(f"matrix multiplication: {name}", median[f"limit {name}"], bar) for name, bar in LIMIT.items()]
        for name, most in OVERHEAD.items():
            if (share := median.get(f"overhead {name} 100")) is not None:
                bars.append(_bar(f"overhead, at most: {name}, 100 steps", share, most) | {"met": share <= most})
        return bars


def _bar(what: str, ratio: float, bar: float) -> dict[str, Any]:
    return {"what": what, "ratio": ratio, "bar": bar, "met": ratio >= bar}


POPULATION = 4


class _Counting:
    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator, self.count, self.stepping = evaluator, 0, 0.0

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        assert request.inherited, "individuals must be measured with inherited weights"
        trained = self._evaluator.evaluate(request, observe)
        self.count += 1
        self.stepping += trained.evaluation.stepping
        return trained


def train_individuals(name: str, steps: int, count: int, precision: str) -> tuple[float, float]:
    """Train individuals with the real worker; return the seconds of one and the fraction not spent in steps 2 to n. The
    only mutation is `identity`, so that all are the same network with inherited weights."""
    with tempfile.TemporaryDirectory(prefix="genepool-bench-") as folder:
        experiment = Experiment.create(Path(folder), _settings(steps, precision))
        counting = _Counting(experiment.evaluators(images(), "cpu")(1))
        enough = Surroundings(reason_to_stop=lambda: "enough" if counting.count >= count else None)
        worker = experiment.worker(0, lambda version: counting, enough)
        _seed(worker, NETWORKS[name].dna)
        started = time.perf_counter()
        worker.run()
        seconds = time.perf_counter() - started
    return seconds / counting.count, 1 - counting.stepping / seconds


def _settings(steps: int, precision: str) -> Settings:
    different = {
        "data.source": "cifar-10",
        "population.size": POPULATION,
        "breeding.odds": {"identity": 1.0},
        "training.steps": steps,
        "training.precision": precision,
        "training.validation_images": IMAGES_PER_STEP * steps,
    }
    return changed(Settings(), different)


def _seed(worker: Worker, dna: DNA) -> None:
    untrained = TorchEvaluator(images(), Training(steps=0, validation_images=100), Limits(), choose_device("cpu"))
    for seed in range(POPULATION):
        births = Reproduction(worker.population, Random(seed), worker.rules, founder=Founder(dna))
        worker.trainer.store(births.first(), untrained.evaluate(TrainingRequest(dna, seed=seed)))
