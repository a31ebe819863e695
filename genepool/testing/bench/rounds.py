"""What is measured in each round of the engine's benchmark. Everything runs in processes of its own, started before."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from genepool.data import Dataset, open_source, prepare
from genepool.dna import DNA, Shape, requirements, shapes
from genepool.evaluation import Evaluator, Limits, Observer, Trained, Training, TrainingRequest, ignore
from genepool.evolution import Founder, Reproduction, Surroundings, Worker
from genepool.experiment import Experiment
from genepool.nn import Model, TorchEvaluator, TrainingRun, choose_device, is_mixed, prepare_process
from genepool.settings import Settings, changed
from genepool.testing.bench.baseline import Images, read
from genepool.testing.bench.networks import CONTESTANTS, Block
from genepool.testing.bench.tuned_loop import tuned_step

BATCH = 50
KERNELS = " kernels"
IMAGES_A_STEP = 10
"""Validation in proportion: so many images for each training step, at most all."""
PRECISION: Literal["auto"] = "auto"
"""Of our individuals and of the hand-tuned loop, as in the preset `laptop`. What is measured beside the machine's
matrix multiplication, sgemm, is float32 as that is."""

_data: Dataset | None = None


def enter(folder: Path) -> None:
    """Makes a process ready: one thread, the images mapped, torch warm."""
    global _data
    prepare_process()
    _data = prepare(open_source("cifar-10", data_dir=folder.parent))
    warm = TorchEvaluator(_data, Training(steps=5, validation_images=100), Limits(), torch.device("cpu"))
    warm.evaluate(TrainingRequest(CONTESTANTS["one convolution"].dna, seed=0))


def images() -> Dataset:
    assert _data is not None, "the process was not made ready"
    return _data


def ordinary_individual(folder: Path, name: str, steps: int) -> float:
    """Seconds for one network the ordinary way, its process included."""
    command = [sys.executable, "-m", "genepool.testing.bench.baseline", str(folder), name, str(steps)]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def steps_a_second(name: str, seconds: float) -> tuple[float, float]:
    """Ours and the hand-tuned loop's, in turns of a quarter of a second, so that both meet the same disturbances."""
    dna, plain = CONTESTANTS[name]
    mixed = is_mixed(PRECISION, torch.device("cpu"))
    ours, theirs = _training(name, mixed).step, tuned_step(plain(), images(), mixed=mixed and bool(dna.convs))
    contest: tuple[Callable[[], object], ...] = (ours, theirs)
    counts, times = [0, 0], [0.0, 0.0]
    for step in contest:
        step()
    while sum(times) < seconds:
        for i, step in enumerate(contest):
            done, spent = _turn(step)
            counts[i] += done
            times[i] += spent
    return counts[0] / times[0], counts[1] / times[1]


def _training(name: str, mixed: bool) -> TrainingRun:
    model = Model(CONTESTANTS[name].dna, images().image, 10, torch.Generator().manual_seed(0))
    return TrainingRun(
        model,
        images(),
        Training(steps=10**9, precision="mixed" if mixed else "float32"),
        seed=0,
        device=torch.device("cpu"),
    )


def _turn(step: Callable[[], object]) -> tuple[int, float]:
    done, started = 0, time.perf_counter()
    while True:
        step()
        done += 1
        if (spent := time.perf_counter() - started) > 0.25:
            return done, spent


def gflops(name: str, seconds: float) -> float:
    """In billions a second, as float32: of our training steps of a network, its `... kernels` alone, or `sgemm`."""
    work: Callable[[], object]
    if name == "sgemm":
        a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
        work, flops = (lambda: a @ b), 2 * 2048**3
    elif name.endswith(KERNELS):
        dna = CONTESTANTS[name.removesuffix(KERNELS)].dna
        work, flops = _kernels(dna, images().image), requirements(dna, images().image, 10).training.convolution
    else:
        work = _training(name, mixed=False).step
        needs = requirements(CONTESTANTS[name].dna, images().image, 10)
        flops = needs.training.convolution + needs.training.matrix
    for _ in range(3):
        work()
    done, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        work()
        done += 1
    return done * flops / spent / 1e9


def _kernels(dna: DNA, image: Shape) -> Callable[[], None]:
    """A network's convolutions, forward and backward, with nothing between them: what torch's own kernels allow."""
    sizes = shapes(dna, image)
    layers: list[tuple[Tensor, Tensor, int, tuple[int, int], list[Tensor], Tensor]] = []
    for edge in dna.convs:
        source, target = sizes.vertices[edge.from_vertex], sizes.edges[edge.id]
        filters = torch.randn(target.channels, source.channels, edge.filter_height, edge.filter_width)
        pixels = torch.randn(BATCH, source.channels, source.height, source.width)
        weight, x = (t.to(memory_format=torch.channels_last) for t in (filters, pixels))
        wanted = [t.requires_grad_() for t in ([weight] if edge.from_vertex == dna.input else [weight, x])]
        above = torch.randn(BATCH, target.channels, target.height, target.width).to(memory_format=torch.channels_last)
        layers.append((weight, x, edge.stride, (edge.filter_height // 2, edge.filter_width // 2), wanted, above))

    def work() -> None:
        for weight, x, stride, padding, wanted, above in layers:
            torch.autograd.grad(functional.conv2d(x, weight, None, stride, padding), wanted, above)

    return work


NETWORK = "resnet-20"
STEPS = 300
"""On two cores twelve trainings of it take about five minutes."""
VALIDATED = 5000


def ours(seed: int, steps: int = STEPS) -> float:
    training = Training(steps=steps, validation_images=VALIDATED, schedule="linear", precision=PRECISION)
    evaluator = TorchEvaluator(images(), training, Limits(), torch.device("cpu"))
    return evaluator.evaluate(TrainingRequest(CONTESTANTS[NETWORK].dna, seed=seed)).evaluation.fitness


def plain(folder: Path, seed: int, steps: int = STEPS) -> float:
    torch.manual_seed(seed)
    random.seed(seed)
    pixels, labels = read(folder)
    network = CONTESTANTS[NETWORK].plain()
    _initialise(network)
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.0001}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.SGD(groups, lr=CONTESTANTS[NETWORK].dna.learning_rate, momentum=0.9)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: min((done + 1) / 20, (steps - done) / steps))
    loader = DataLoader(Images(pixels[5000:], labels[5000:], True), batch_size=50, shuffle=True)
    for pictures, answers in islice(loader, steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(pictures), answers).backward()
        optimiser.step()
        rate.step()
    network.eval()
    right = 0
    with torch.no_grad():
        for pictures, answers in DataLoader(Images(pixels[:VALIDATED], labels[:VALIDATED], False), batch_size=100):
            right += int((network(pictures).argmax(1) == answers).sum())
    return right / VALIDATED


def _initialise(network: nn.Module) -> None:
    """As the paper's recipe says: He et al. (2015), and two edges that meet share the variance of one."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, std=math.sqrt(2 / module.weight[0].numel()))
    for module in network.modules():
        if isinstance(module, Block):
            with torch.no_grad():
                module.conv2.weight.mul_(math.sqrt(0.5))
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


POPULATION = 4


class _Counting:
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
    """Return the seconds per individual, and the share not spent in steps 2 to n.

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
    """Fill the population with untrained individuals of that DNA."""
    untrained = TorchEvaluator(images(), Training(steps=0, validation_images=100), Limits(), choose_device("cpu"))
    for seed in range(POPULATION):
        job = Reproduction(
            population=worker.population, rng=Random(seed), rules=worker.rules, founder=Founder(dna)
        ).first()
        worker.trainer.store(job, untrained.evaluate(TrainingRequest(dna, seed=seed)))
