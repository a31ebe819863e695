"""The benchmark's five networks, as DNA and in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

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
    plain: Callable[[], Plain]


class Plain(nn.Module):
    """Features, then pooling and a linear layer."""

    def __init__(self, channels: int, *features: nn.Module) -> None:
        super().__init__()
        self.features, self.head = nn.Sequential(*features), nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x).mean((2, 3)))
        return scores


def plain_chain(layers: Layers) -> Plain:
    """Return convolutions with batch normalisation and rectifier."""
    blocks: list[nn.Module] = []
    before = 3
    for channels, stride in layers:
        conv = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        blocks += [conv, nn.BatchNorm2d(channels, eps=0.001), nn.ReLU(inplace=True)]
        before = channels
    return Plain(before, *blocks)


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


def plain_resnet_20() -> Plain:
    first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    blocks = [Block(*widths) for widths in pairwise((16, 16, 16, 16, 32, 32, 32, 64, 64, 64))]
    return Plain(64, first, *blocks, nn.BatchNorm2d(64, eps=0.001), nn.ReLU(inplace=True))


def chain(layers: Layers) -> DNA:
    """Return `plain_chain` as DNA."""
    vertices, edges, top, before = [INPUT], [], INPUT.id, 3
    for i, (channels, stride) in enumerate(layers):
        vertices.append(Vertex(id=f"v{i}", type="bn_relu"))
        numbers = {"depth_factor": channels / before, "stride_scale": float(stride - 1)}
        edges.append(Conv(id=f"c{i}", from_vertex=top, to_vertex=f"v{i}", **numbers))  # type: ignore[arg-type]
        top, before = f"v{i}", channels
    trunk = Identity(id="trunk", from_vertex=top, to_vertex=OUTPUT.id)
    return DNA(learning_rate=0.1, vertices=(*vertices, OUTPUT), edges=(*edges, trunk))


NETWORKS: dict[str, BenchNetwork] = {
    "linear": BenchNetwork(initial(), lambda: plain_chain(())),
    "one convolution": BenchNetwork(chain(((16, 1),)), lambda: plain_chain(((16, 1),))),
    "six convolutions": BenchNetwork(chain(SIX), lambda: plain_chain(SIX)),
    "resnet-20": BenchNetwork(zoo("resnet-20"), plain_resnet_20),
    "wide": BenchNetwork(chain(WIDE), lambda: plain_chain(WIDE)),
}
