"""Whole individuals for the engine's benchmark, by the real worker: it draws, inherits from the store, trains, saves.

Not under nn/, since a worker is more than torch: the population's directory and the steps of evolution are in it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

from genepool.dna import DNA
from genepool.evaluation import Evaluator, Limits, Observer, Trained, Training, TrainingRequest, ignore
from genepool.evolution import Founder, Reproduction, Surroundings, Worker
from genepool.experiment import Experiment
from genepool.nn import TorchEvaluator, choose_device
from genepool.settings import Settings, changed
from genepool.testing.bench.networks import CONTESTANTS
from genepool.testing.bench.rounds import IMAGES_A_STEP, images

POPULATION = 4


class _Counting:
    """An evaluator that counts what another one does."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.count, self.stepping = 0, 0.0

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        assert request.inherited, "individuals must be measured with inherited weights"
        trained = self._evaluator.evaluate(request, observe)
        self.count += 1
        self.stepping += trained.evaluation.stepping
        return trained


def train_individuals(name: str, steps: int, count: int, precision: str) -> tuple[float, float]:
    """The seconds that one of so many took, one after another, and the share that was not spent in steps 2 to n.

    The only mutation is the one that changes nothing, so that all are the same network, each with inherited weights.
    """
    with tempfile.TemporaryDirectory(prefix="genepool-bench-") as folder:
        experiment = Experiment.create(Path(folder), _settings(steps, precision))
        counting = _Counting(experiment.evaluators(images(), "cpu")(1))
        enough = Surroundings(reason_to_stop=lambda: "enough" if counting.count >= count else None)
        worker = experiment.worker(0, lambda version: counting, enough)
        _seed(worker, CONTESTANTS[name].dna)
        started = time.perf_counter()
        worker.run()
        seconds = time.perf_counter() - started
    return seconds / counting.count, 1 - counting.stepping / seconds


def _settings(steps: int, precision: str) -> Settings:
    return changed(
        Settings(),
        {
            "data.source": "cifar-10",
            "population.size": POPULATION,
            "breeding.odds": {"identity": 1.0},
            "training.steps": steps,
            "training.precision": precision,
            "training.validation_images": IMAGES_A_STEP * steps,
        },
    )


def _seed(worker: Worker, dna: DNA) -> None:
    """Fills the population with untrained individuals of that DNA."""
    untrained = TorchEvaluator(images(), Training(steps=0, validation_images=100), Limits(), choose_device("cpu"))
    for seed in range(POPULATION):
        job = Reproduction(
            population=worker.population, rng=Random(seed), rules=worker.rules, founder=Founder(dna)
        ).first()
        worker.trainer.store(job, untrained.evaluate(TrainingRequest(dna, seed=seed)))
