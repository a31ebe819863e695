"""The benchmark's five networks, as DNA and in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from genepool.dna import DNA, INPUT, OUTPUT, Conv, Identity, Vertex, initial, zoo

Layers = tuple[tuple[int, int], ...]
"""Channels and stride of each 3x3 convolution."""

SIX: Layers = ((16, 1), (32, 2), (48, 1), (64, 2), (96, 1), (128, 2))
WIDE: Layers = ((32, 1), (64, 1), (64, 2), (128, 1), (128, 1), (128, 2), (192, 1), (256, 2))


class BenchNetwork(NamedTuple):
    """One network in both forms."""

    dna: DNA
    plain: Callable[[], nn.Module]


class Chain(nn.Module):
    """Convolutions with batch normalisation and rectifier, then pooling and a linear layer."""

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        before = 3
        for channels, stride in layers:
            conv = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
            blocks += [conv, nn.BatchNorm2d(channels, eps=0.001), nn.ReLU(inplace=True)]
            before = channels
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(before, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x).mean((2, 3)))
        return scores


class Block(nn.Module):
    """A block of a pre-activation residual network with zero-padded shortcuts."""

    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.stride = 1 if before == channels else 2
        self.norm1 = nn.BatchNorm2d(before, eps=0.001)
        self.conv1 = nn.Conv2d(before, channels, 3, self.stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels, eps=0.001)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(functional.relu_(self.norm1(x)))
        y = self.conv2(functional.relu_(self.norm2(y)))
        if self.stride > 1:
            # Every other pixel; a slice would lose the memory layout and a tenth of the speed.
            x = functional.interpolate(x, scale_factor=0.5)
            x = functional.pad(x, (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))
        return x + y


class ResNet20(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
        self.first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*(Block(a, b) for a, b in pairwise(widths)))
        self.last = nn.BatchNorm2d(64, eps=0.001)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu_(self.last(self.blocks(self.first(x))))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


def chain(layers: Layers) -> DNA:
    """Return `Chain` as DNA."""
    vertices, edges, top, before = [INPUT], [], INPUT.id, 3
    for i, (channels, stride) in enumerate(layers):
        vertices.append(Vertex(id=f"v{i}", type="bn_relu"))
        numbers = {"depth_factor": channels / before, "stride_scale": float(stride - 1)}
        edges.append(Conv(id=f"c{i}", from_vertex=top, to_vertex=f"v{i}", **numbers))  # type: ignore[arg-type]
        top, before = f"v{i}", channels
    trunk = Identity(id="trunk", from_vertex=top, to_vertex=OUTPUT.id)
    return DNA(learning_rate=0.1, vertices=(*vertices, OUTPUT), edges=(*edges, trunk))


NETWORKS: dict[str, BenchNetwork] = {
    "linear": BenchNetwork(initial(), lambda: Chain(())),
    "one convolution": BenchNetwork(chain(((16, 1),)), lambda: Chain(((16, 1),))),
    "six convolutions": BenchNetwork(chain(SIX), lambda: Chain(SIX)),
    "resnet-20": BenchNetwork(zoo("resnet-20"), ResNet20),
    "wide": BenchNetwork(chain(WIDE), lambda: Chain(WIDE)),
}


def channels_last(network: nn.Module) -> nn.Module:
    """Change to the memory layout that is fastest on CPUs."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network
