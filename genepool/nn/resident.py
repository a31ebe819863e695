"""The images on a GPU: copied there once, as bytes, and cropped, flipped and normalised there.

The random numbers are those of genepool.nn.augment, drawn on the CPU and sent over, so that a batch is the same on
every device, and a training may go on elsewhere than where it began.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genepool.nn.augment import Batches, Normaliser
from genepool.nn.data import Dataset


class Resident(NamedTuple):
    """A data set's images and labels on a device."""

    train_pixels: Tensor
    train_labels: Tensor
    validation_pixels: Tensor


@lru_cache(maxsize=2)
def resident(data: Dataset, device: torch.device) -> Resident:
    """The data set on that device; the next training finds it there."""
    arrays = (data.train_pixels, data.train_labels, data.validation_pixels)
    return Resident(*(torch.from_numpy(np.array(array)).to(device) for array in arrays))


class ResidentBatches:
    """The batches of one training, as `Batches` makes them, without a copy of images to the device."""

    def __init__(
        self, data: Dataset, *, batch: int, seed: int, device: torch.device, size: tuple[int, int] | None = None
    ) -> None:
        height, width = size or (data.height, data.width)
        self._images = resident(data, device)
        self._normalise = Normaliser(data, device, (height, width))
        self._drawn = Batches(data, batch=batch, seed=seed, device=torch.device("cpu"), size=size)
        self._flip = data.flip
        self._rows = torch.arange(height, device=device)
        self._columns = torch.arange(width, device=device)

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Images and labels of a step; steps are numbered from 0."""
        numbers = self._numbers(step)
        order, top, left, flip = (numbers[i] for i in range(4))
        rows, columns = self._rows + top[:, None], self._columns.expand(len(order), -1)
        if self._flip:
            columns = torch.where(flip[:, None] > 0, columns.flip(1), columns)
        columns = columns + left[:, None]
        pixels = self._images.train_pixels[order[:, None, None], rows[:, :, None], columns[:, None, :]]
        return self._normalise.of_tensor(pixels), self._images.train_labels[order]

    def _numbers(self, step: int) -> Tensor:
        """What was drawn for a step, on the device; a copy of a few hundred numbers that nothing waits for."""
        numbers = torch.from_numpy(np.stack(self._drawn.drawn(step)))
        return numbers.to(self._rows.device, non_blocking=True)


def batches_for(
    data: Dataset, *, batch: int, seed: int, device: torch.device, size: tuple[int, int] | None = None
) -> Batches | ResidentBatches:
    """On the CPU images stay in the files that all processes map; anywhere else they are copied once."""
    kind = Batches if device.type == "cpu" else ResidentBatches
    return kind(data, batch=batch, seed=seed, device=device, size=size)
