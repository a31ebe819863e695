"""The measurements of one round of the training benchmark. They run in processes that were started before."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from genepool.data import Dataset, open_source, prepare
from genepool.dna import DNA, Shape, requirements, shapes
from genepool.evaluation import Limits, Training, TrainingRequest
from genepool.nn import Model, TorchEvaluator, TrainingRun, is_mixed, prepare_process
from genepool.testing.bench.baseline import NETWORKS, Block, Images, Plain, accuracy, read

BATCH = 50
KERNELS = " kernels"
IMAGES_PER_STEP = 10  # validation images per training step, at most all
PRECISION: Literal["auto"] = "auto"
"""The precision of our individuals and the hand-tuned loop, as in the preset `laptop`; sgemm is compared in float32."""

_data: Dataset | None = None


def enter(folder: Path) -> None:
    """Prepare a process: one thread, images mapped, torch warmed up."""
    global _data
    prepare_process()
    _data = prepare(open_source("cifar-10", data_dir=folder.parent))
    warm = TorchEvaluator(_data, Training(steps=5, validation_images=100), Limits(), torch.device("cpu"))
    warm.evaluate(TrainingRequest(NETWORKS["one convolution"].dna, seed=0))


def images() -> Dataset:
    assert _data is not None, "the process was not prepared"
    return _data


def baseline_individual(folder: Path, name: str, steps: int) -> float:
    """Return the seconds of one training by the baseline, including its process."""
    command = [sys.executable, "-m", "genepool.testing.bench.baseline", str(folder), name, str(steps)]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def steps_per_second(name: str, seconds: float) -> tuple[float, float]:
    """Measure our steps and the hand-tuned loop's alternately, so that both meet the same disturbances."""
    dna, plain = NETWORKS[name]
    mixed = is_mixed(PRECISION, torch.device("cpu"))
    ours, theirs = _training(name, mixed).step, tuned_step(plain(), images(), mixed=mixed and bool(dna.convs))
    contest: tuple[Callable[[], object], ...] = (ours, theirs)
    counts, times = [0, 0], [0.0, 0.0]
    for step in contest:
        step()
    while sum(times) < seconds:
        for i, step in enumerate(contest):
            done, spent = _repeated(step, 0.25)
            counts[i] += done
            times[i] += spent
    return counts[0] / times[0], counts[1] / times[1]


def _training(name: str, mixed: bool) -> TrainingRun:
    model = Model(NETWORKS[name].dna, images().image, 10, torch.Generator().manual_seed(0))
    training = Training(steps=10**9, precision="mixed" if mixed else "float32")
    return TrainingRun(model, images(), training, seed=0, device=torch.device("cpu"))


def _repeated(work: Callable[[], object], seconds: float) -> tuple[int, float]:
    done, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        work()
        done += 1
    return done, spent


def gflops(name: str, seconds: float) -> float:
    """Return float32 GFLOPs per second of our training steps, of a network's `... kernels` alone, or of `sgemm`."""
    work: Callable[[], object]
    if name == "sgemm":
        a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
        work, flops = (lambda: a @ b), 2 * 2048**3
    elif name.endswith(KERNELS):
        dna = NETWORKS[name.removesuffix(KERNELS)].dna
        work, flops = _kernels(dna, images().image), requirements(dna, images().image, 10).training.convolution
    else:
        work = _training(name, mixed=False).step
        needs = requirements(NETWORKS[name].dna, images().image, 10)
        flops = needs.training.convolution + needs.training.matrix
    for _ in range(3):
        work()
    done, spent = _repeated(work, seconds)
    return done * flops / spent / 1e9


def _kernels(dna: DNA, image: Shape) -> Callable[[], None]:
    """Return a network's convolutions, forward and backward, with nothing in between: the limit of torch's kernels."""
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
STEPS = 300  # on two cores, twelve trainings take about five minutes
VALIDATION = 5000


def ours(seed: int, steps: int = STEPS) -> float:
    training = Training(steps=steps, validation_images=VALIDATION, schedule="linear", precision=PRECISION)
    evaluator = TorchEvaluator(images(), training, Limits(), torch.device("cpu"))
    return evaluator.evaluate(TrainingRequest(NETWORKS[NETWORK].dna, seed=seed)).evaluation.fitness


def plain(folder: Path, seed: int, steps: int = STEPS) -> float:
    """Return the validation accuracy of a plain loop on CIFAR-10's official files."""
    torch.manual_seed(seed)
    random.seed(seed)
    pixels, labels = read(folder)
    network = NETWORKS[NETWORK].plain()
    _initialise(network)
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.0001}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.SGD(groups, lr=NETWORKS[NETWORK].dna.learning_rate, momentum=0.9)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: min((done + 1) / 20, (steps - done) / steps))
    loader = DataLoader(Images(pixels[5000:], labels[5000:], True), batch_size=50, shuffle=True)
    for pictures, answers in islice(loader, steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(pictures), answers).backward()
        optimiser.step()
        rate.step()
    return accuracy(network, Images(pixels[:VALIDATION], labels[:VALIDATION], False), batch=100)


def _initialise(network: nn.Module) -> None:
    """Initialise as in genepool.nn.model: He et al. (2015); two edges into one vertex share the variance of one."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):  # torch's own modules: the plain network has no kinds of layers
            nn.init.normal_(module.weight, std=math.sqrt(2 / module.weight[0].numel()))
    for module in network.modules():
        if isinstance(module, Block):
            with torch.no_grad():
                module.conv2.weight.mul_(math.sqrt(0.5))
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


def tuned_step(network: Plain, data: Dataset, *, mixed: bool) -> Callable[[], None]:
    """Return one training step as an expert would write it by hand for one network: one thread, channels-last, the
    data set as one padded array, batches by one gather, mirrored by torch and not by NumPy, pooling in the form
    whose gradient is fast, four `foreach` calls for the update, and bfloat16 for all but the classifier where it is
    faster."""
    network.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    features, head, batch = network.features, network.head, _batches(data)
    parameters: list[Tensor] = list(network.parameters())
    velocity = [torch.zeros_like(p) for p in parameters]
    decayed = [i for i, p in enumerate(parameters) if p.ndim > 1]

    def step() -> None:
        images, labels = batch()
        if mixed:
            with torch.autocast("cpu", torch.bfloat16):
                pooled = _pool(features(images)).float()
        else:
            pooled = _pool(features(images))
        loss = functional.cross_entropy(head(pooled), labels)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_([gradients[i] for i in decayed], [parameters[i] for i in decayed], alpha=0.0001)
            torch._foreach_mul_(velocity, 0.9)
            torch._foreach_add_(velocity, gradients)
            torch._foreach_add_(parameters, velocity, alpha=-0.1)

    return step


def _pool(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def _batches(data: Dataset) -> Callable[[], tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(0)
    pixels, count = data.train_pixels, len(data.train_labels)
    image, row, column, _ = pixels.strides
    windows = as_strided(pixels, (count, 9, 9, 32, 96), (image, row, column, row, 1), writeable=False)
    labels = np.asarray(data.train_labels)
    scale = torch.tensor(np.tile(1 / (255 * np.array(data.std)), 1024), dtype=torch.float32)
    shift = torch.tensor(np.tile(-np.array(data.mean) / np.array(data.std), 1024), dtype=torch.float32)
    drawn: tuple[NDArray[Any], ...] = ()
    place = count

    def batch() -> tuple[Tensor, Tensor]:
        nonlocal drawn, place
        if place + 50 > count:  # the next pass through the images, with other crops
            drawn = (rng.permutation(count), *rng.integers(0, 9, (2, count)), rng.random(count) < 0.5)
            place = 0
        order, top, left, flip = [one[place : place + 50] for one in drawn]
        place += 50
        crops = windows[order, top, left].reshape(50, 32, 32, 3)
        mirrored = np.flatnonzero(flip)
        crops[mirrored] = torch.from_numpy(crops[mirrored]).flip(2).numpy()
        flat = torch.from_numpy(crops.reshape(50, 3072)).float().mul_(scale).add_(shift)
        return flat.view(50, 32, 32, 3).permute(0, 3, 1, 2), torch.from_numpy(labels[order])

    return batch
