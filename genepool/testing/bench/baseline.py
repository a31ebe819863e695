"""The baseline: one network trained in a new process, with a DataLoader that augments image by image, and torch.optim.

    python -m genepool.testing.bench.baseline FOLDER NETWORK STEPS

It is written as in a tutorial, with two threads and two loader processes, for CIFAR-10's official files in FOLDER. The
benchmark's five networks are here too, as DNA and in plain torch.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from genepool.dna import DNA, INPUT, OUTPUT, initial, zoo
from genepool.layers import BatchNormRelu, Conv, Identity, Vertex

Layers = tuple[tuple[int, int], ...]  # channels and stride of each 3x3 convolution

SIX: Layers = ((16, 1), (32, 2), (48, 1), (64, 2), (96, 1), (128, 2))
WIDE: Layers = ((32, 1), (64, 1), (64, 2), (128, 1), (128, 1), (128, 2), (192, 1), (256, 2))


class BenchNetwork(NamedTuple):
    dna: DNA
    plain: Callable[[], Plain]


class Plain(nn.Module):
    def __init__(self, channels: int, *features: nn.Module) -> None:
        super().__init__()
        self.features, self.head = nn.Sequential(*features), nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x).mean((2, 3)))
        return scores


def plain_chain(layers: Layers) -> Plain:
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
    vertices: list[Vertex] = [INPUT]
    edges, top, before = [], INPUT.id, 3
    for i, (channels, stride) in enumerate(layers):
        vertices.append(BatchNormRelu(id=f"v{i}"))
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


Sample = tuple[Tensor, int]


class Images(Dataset[Sample]):
    def __init__(self, pixels: np.ndarray, labels: np.ndarray, augment: bool) -> None:
        mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.247, 0.243, 0.261])
        normalised = (pixels / 255 - mean[:, None, None]) / std[:, None, None]
        self.pixels, self.labels, self.augment = normalised.astype(np.float32), labels, augment

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Sample:
        image = torch.from_numpy(self.pixels[index])
        if self.augment:
            image = functional.pad(image, (4, 4, 4, 4))
            top, left = random.randint(0, 8), random.randint(0, 8)
            image = image[:, top : top + 32, left : left + 32]
            if random.random() < 0.5:
                image = image.flip(2)
        return image, int(self.labels[index])


def read(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    files = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def accuracy(model: nn.Module, images: Images, batch: int) -> float:
    model.eval()
    with torch.no_grad():
        right = sum(int((model(x).argmax(1) == answers).sum()) for x, answers in DataLoader(images, batch_size=batch))
    return right / len(images)


def main(folder: Path, name: str, steps: int) -> None:
    torch.set_num_threads(2)
    pixels, labels = read(folder)
    training, validation = Images(pixels[5000:], labels[5000:], True), Images(pixels[:5000], labels[:5000], False)
    model = NETWORKS[name].plain()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0001)
    loss_of = nn.CrossEntropyLoss()
    done = 0
    while done < steps:
        for images, answers in DataLoader(training, batch_size=50, shuffle=True, num_workers=2):
            optimiser.zero_grad()
            loss_of(model(images), answers).backward()
            optimiser.step()
            done += 1
            if done == steps:
                break
    right = accuracy(model, validation, batch=50)
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(model.state_dict(), file.name)
    sys.stdout.write(f"{right}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
