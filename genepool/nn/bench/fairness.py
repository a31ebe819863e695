"""Whether speed has cost accuracy: ResNet-20 after a fixed number of steps, trained by us and by a plain loop.

The plain loop shares nothing with ours but the recipe: official files, per-image augmentation, NCHW, torch.optim. The
learning rate falls to zero, since the accuracy in the middle of a training at full rate is a lottery.
"""

from __future__ import annotations

import math
import random
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from genepool.nn.bench.ordinary import Images, read
from genepool.nn.bench.plain import CONTESTANTS, Block
from genepool.nn.bench.rounds import PRECISION, images
from genepool.nn.evaluator import Limits, TorchEvaluator
from genepool.nn.precision import is_mixed
from genepool.nn.training import Recipe

NETWORK = "resnet-20"
STEPS = 300
"""On two cores twelve trainings of it take about five minutes."""
VALIDATED = 5000


def ours(seed: int, steps: int = STEPS) -> float:
    """Validation accuracy of our training."""
    device = torch.device("cpu")
    recipe = Recipe(steps=steps, validation=VALIDATED, schedule="linear", mixed=is_mixed(PRECISION, device))
    evaluator = TorchEvaluator(images(), recipe, Limits(), device)
    return evaluator.evaluate(CONTESTANTS[NETWORK].dna, seed=seed).evaluation.fitness


def plain(folder: Path, seed: int, steps: int = STEPS) -> float:
    """Validation accuracy of the plain loop on CIFAR-10's official files."""
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
