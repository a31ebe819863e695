"""Stochastic gradient descent on all tensors at once, the moving variances, and the average of the last weights.

This is not torch.optim, whose import takes over a second in each new process; this one is as fast.

Differs from the paper, which keeps the weights of the last step: their mean over the last steps is less noisy (Polyak
averaging over a tail). Batch normalisation's statistics cannot be averaged, so a few more batches determine them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from genepool.dna import shapes
from genepool.layers import DECAY
from genepool.nn.model import CLASSIFIER, Model


class _Group(NamedTuple):
    """Tensors that share a learning rate, by their places among the parameters."""

    places: list[int]
    parameters: list[Tensor]
    velocity: list[Tensor]
    rate: float
    """The factor of their learning rate."""


class SGD:
    """The paper's optimiser; weight decay acts on filters and on the classifier's matrix only. Differs from the paper
    if `body_rate` is not 1: it multiplies the learning rate of all layers but the classifier."""

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float,
        momentum: float,
        weight_decay: float,
        nesterov: bool = False,
        body_rate: float = 1.0,
    ) -> None:
        self.parameters: list[Tensor] = list(model.parameters())
        self.learning_rate, self.momentum, self.weight_decay = learning_rate, momentum, weight_decay
        self.nesterov = nesterov
        """Differs from the paper if it is on: the gradient is applied to where the velocity will lead."""
        self.velocity = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._decayed = [i for i, parameter in enumerate(self.parameters) if parameter.ndim > 1]
        self._decayed_parameters = [self.parameters[i] for i in self._decayed]
        self._groups = self._groups_of(model, body_rate)

    def _groups_of(self, model: nn.Module, body_rate: float) -> list[_Group]:
        names = [name for name, _ in model.named_parameters()]
        rates = [1.0 if name.startswith(CLASSIFIER) else body_rate for name in names]
        groups = []
        for rate in dict.fromkeys(rates):
            places = [i for i, other in enumerate(rates) if other == rate]
            parameters, velocity = [self.parameters[i] for i in places], [self.velocity[i] for i in places]
            groups.append(_Group(places, parameters, velocity, rate))
        return groups

    def step(self, gradients: tuple[Tensor, ...] | list[Tensor]) -> None:
        """Make one update with a gradient per parameter; the gradients are modified."""
        with torch.no_grad():
            decayed = [gradients[i] for i in self._decayed]
            torch._foreach_add_(decayed, self._decayed_parameters, alpha=self.weight_decay)
            torch._foreach_mul_(self.velocity, self.momentum)
            torch._foreach_add_(self.velocity, gradients)
            for places, parameters, velocity, factor in self._groups:
                rate = self.learning_rate * factor
                if self.nesterov:
                    torch._foreach_add_(parameters, [gradients[i] for i in places], alpha=-rate)
                    torch._foreach_add_(parameters, velocity, alpha=-rate * self.momentum)
                else:
                    torch._foreach_add_(parameters, velocity, alpha=-rate)


class MovingVariances:
    """Makes torch's moving variances those of TF-slim, which averages the biased variances of batches. torch averages
    the unbiased ones: n / (n - 1) times as large, for n values per channel in a batch. An average is linear, so it is
    enough to multiply by that factor before the first step and to divide by it after the last one.
    """

    def __init__(self, model: Model, batch: int) -> None:
        sizes = shapes(model.dna, model.image).vertices
        layers = model.normalisations()
        self._variances: list[Tensor] = [layer.running_var for layer in layers.values()]
        self._places = [sizes[name].height * sizes[name].width for name in layers]
        self.resume(batch)

    def resume(self, batch: int) -> None:
        """Set the number of images that one process computes statistics of; the variances belong to it already."""
        self._batch, values = batch, [batch * places for places in self._places]
        self._factors = [value / max(1, value - 1) for value in values]

    def change(self, batch: int) -> None:
        """The same, for variances that belong to the former number."""
        if batch != self._batch:
            self.to_biased()
            self.resume(batch)
            self.to_unbiased()

    def to_unbiased(self) -> None:
        """Call this before the first step."""
        if self._variances:
            torch._foreach_mul_(self._variances, self._factors)

    def to_biased(self) -> None:
        """Call this after the last step."""
        if self._variances:
            torch._foreach_div_(self._variances, self._factors)

    @contextmanager
    def biased(self) -> Iterator[None]:
        """Have the biased ones for a while between two steps, and exactly the others again afterwards."""
        before = [variance.clone() for variance in self._variances]
        self.to_biased()
        yield
        for variance, value in zip(self._variances, before, strict=True):
            variance.copy_(value)


EVERY = 5  # steps between two samples of the average: neighbours hardly differ, and so averaging costs nothing
BATCHES = 10  # the number of batches for the statistics of batch normalisation


class TailAverage:
    """The mean of the weights over the last part of a training, whose end may move during the training."""

    def __init__(self, model: nn.Module, part: float) -> None:
        self.part, self.count = part, 0
        self.values: list[Tensor] = []
        """One tensor per parameter, unless `count` is 0."""
        self._parameters: list[Tensor] = list(model.parameters())

    def after(self, done: int, steps: int) -> None:
        """Call this after every step; `steps` is the total, or 0 if it is not known yet."""
        if not self.part or (done % EVERY and done != steps):
            return
        if done <= (1 - self.part) * steps or not steps:
            self.count, self.values = 0, []  # it begins later than expected
            return
        self.count += 1
        with torch.no_grad():
            if self.count == 1:
                self.values = [parameter.clone() for parameter in self._parameters]
            else:
                torch._foreach_lerp_(self.values, self._parameters, 1 / self.count)

    def apply(self) -> None:
        with torch.no_grad():
            for parameter, value in zip(self._parameters, self.values, strict=True):
                parameter.copy_(value)

    def state(self) -> dict[str, Tensor]:
        if not self.part:
            return {}
        tensors = {f"average.{i}": value for i, value in enumerate(self.values)}
        return {**tensors, "averaged": torch.tensor([self.count], dtype=torch.float64)}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        if not self.part:
            return
        self.count = int(tensors["averaged"].item())
        kept = self._parameters if self.count else []
        self.values = [torch.empty_like(p).copy_(tensors[f"average.{i}"]) for i, p in enumerate(kept)]


def find_statistics(model: Model, batches: Iterable[Tensor]) -> int:
    """Compute batch normalisation's moving averages for the current weights; return the number of batches used. They
    start from zero and are divided by the total weight of the batches: a true mean without a bias from the start.
    """
    taken, statistics = 0, [buffer for tensors in model.normalisations().values() for buffer in tensors.buffers()]
    if not statistics:
        return 0
    with torch.no_grad():
        torch._foreach_zero_(statistics)
        for images in batches:
            model(images)
            taken += 1
        torch._foreach_div_(statistics, 1 - DECAY**taken)
    return taken
