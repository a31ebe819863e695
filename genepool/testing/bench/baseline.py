"""The baseline: one network trained in a new process, with a DataLoader that augments image by image, and torch.optim.

    python -m genepool.testing.bench.baseline FOLDER NETWORK STEPS

It is written as in a tutorial, with two threads and two loader processes, for CIFAR-10's official files in FOLDER.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from genepool.testing.bench.networks import NETWORKS

Sample = tuple[Tensor, int]


class Images(Dataset[Sample]):
    """CIFAR-10 images, cropped and flipped one by one."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, augment: bool) -> None:
        mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.247, 0.243, 0.261])
        normalised = (pixels / 255 - mean[:, None, None]) / std[:, None, None]
        self.pixels, self.labels, self.augment = normalised.astype(np.float32), labels, augment

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Sample:
        image = torch.from_numpy(self.pixels[index])
        if self.augment:
            image = nn.functional.pad(image, (4, 4, 4, 4))
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
