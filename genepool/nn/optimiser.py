"""Stochastic gradient descent with momentum and weight decay, in four operations on all tensors at once.

Not torch.optim: importing that costs over a second in each new process, and this is as fast.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SGD:
    """The paper's optimiser; weight decay acts on filters and on the classifier's matrix only."""

    def __init__(
        self, model: nn.Module, *, learning_rate: float, momentum: float, weight_decay: float, nesterov: bool = False
    ) -> None:
        self.parameters: list[Tensor] = list(model.parameters())
        self.learning_rate, self.momentum, self.weight_decay = learning_rate, momentum, weight_decay
        self.nesterov = nesterov
        """Differs from the paper where it is on: the step goes to where the velocity will be after this gradient."""
        self.velocity = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._decayed = [i for i, parameter in enumerate(self.parameters) if parameter.ndim > 1]
        self._decayed_parameters = [self.parameters[i] for i in self._decayed]

    def step(self, gradients: tuple[Tensor, ...] | list[Tensor]) -> None:
        """One update, with a gradient for each parameter; the gradients are used up."""
        with torch.no_grad():
            torch._foreach_add_(
                [gradients[i] for i in self._decayed], self._decayed_parameters, alpha=self.weight_decay
            )
            torch._foreach_mul_(self.velocity, self.momentum)
            torch._foreach_add_(self.velocity, gradients)
            if self.nesterov:
                torch._foreach_add_(self.parameters, gradients, alpha=-self.learning_rate)
                torch._foreach_add_(self.parameters, self.velocity, alpha=-self.learning_rate * self.momentum)
            else:
                torch._foreach_add_(self.parameters, self.velocity, alpha=-self.learning_rate)
