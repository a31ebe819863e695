"""The layers of a network, in the form that we need them. Activations are channels-last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from genepool.dna import Conv, Shape


class Filters(nn.Module):
    """A convolution without bias that keeps the size, or divides it by the stride, rounding up."""

    def __init__(self, edge: Conv, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.stride = edge.stride
        self.padding = (edge.filter_height // 2, edge.filter_width // 2)
        size = (channels_out, channels_in, edge.filter_height, edge.filter_width)
        self.weight = nn.Parameter(torch.empty(size, memory_format=torch.channels_last))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, None, self.stride, self.padding)

    def then(self, activation: Activation) -> Callable[[Tensor], Tensor]:
        """This convolution and the activation behind it as one operation, for validation."""
        scale = activation.weight * torch.rsqrt(activation.running_var + activation.EPSILON)
        weight = (self.weight * scale.view(-1, 1, 1, 1)).contiguous(memory_format=torch.channels_last)
        bias = activation.bias - activation.running_mean * scale
        return lambda x: activation.rectify(functional.conv2d(x, weight, bias, self.stride, self.padding))


class Activation(nn.Module):
    """Batch normalisation, with moving averages of decay 0.9 for validation, and a rectifier."""

    DECAY = 0.9
    EPSILON = 0.001

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, leakiness: float) -> None:
        super().__init__()
        self.leakiness = leakiness
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        statistics = (self.running_mean, self.running_var)
        y = functional.batch_norm(x, *statistics, self.weight, self.bias, self.training, 1 - self.DECAY, self.EPSILON)
        return self.rectify(y)

    def rectify(self, y: Tensor) -> Tensor:
        """In place, because the gradient of what comes before, batch normalisation, needs its input only."""
        return functional.relu_(y) if self.leakiness == 0 else functional.leaky_relu_(y, self.leakiness)


class Classifier(nn.Module):
    """Global average pooling and one fully connected layer."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, channels))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        # Pooled like this, and not as a mean over two axes, because the gradient of that has stride 0, which sends the
        # rectifier's gradient before it down a scalar path: half of a shallow network's time on CPUs.
        pooled = x.permute(0, 2, 3, 1).flatten(1, 2).mean(1)
        if not torch._C._is_any_autocast_enabled():
            return functional.linear(pooled, self.weight, self.bias)
        # Scores and their loss are always float32: that costs nothing, and few bits decide between close scores.
        with torch.autocast(x.device.type, enabled=False):
            return functional.linear(pooled.float(), self.weight, self.bias)


def fit(x: Tensor, shape: Shape) -> Tensor:
    """Makes what an edge brings fit its vertex: zeroth-order interpolation in size, cut or zero-padded in channels."""
    missing = shape.channels - x.shape[1]
    if missing < 0:
        x = x[:, : shape.channels]
    if x.shape[2:] != (shape.height, shape.width):
        x = functional.interpolate(x, size=(shape.height, shape.width), mode="nearest")
    return functional.pad(x, (0, 0, 0, 0, 0, missing)) if missing > 0 else x
