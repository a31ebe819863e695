"""The training batches: shuffled, cropped at random from the padded images, flipped at random (He et al., 2016). A
batch is one gather from the memory-mapped pixels and a pure function of the data, the seed and the step's number, so a
training can be resumed at any step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor

from genepool.data import Dataset


class Normaliser:
    """Turns uint8 pixels (batch, height, width, channels) into a normalised, channels-last float tensor."""

    def __init__(self, data: Dataset, device: torch.device, size: tuple[int, int] | None = None) -> None:
        mean, std = np.asarray(data.mean), np.asarray(data.std)
        height, width = size or (data.height, data.width)
        # Tiled to the full image: broadcasting over an inner axis of three costs more than the arithmetic.
        self._scale, self._shift = (
            torch.tensor(np.tile(per_channel, (height, width, 1)), dtype=torch.float32, device=device)
            for per_channel in (1 / (255 * std), -mean / std)
        )
        self.device, self._here = device, device.type == "cpu"

    def __call__(self, pixels: NDArray[np.uint8]) -> Tensor:
        tensor = torch.from_numpy(pixels)
        return self.of_tensor(tensor if self._here else tensor.to(self.device, non_blocking=True))

    def of_tensor(self, pixels: Tensor) -> Tensor:
        """Normalise pixels that are already on the device."""
        scaled = pixels.float().mul_(self._scale).add_(self._shift)  # (batch, height, width, channels)
        return scaled.permute(0, 3, 1, 2)  # (batch, channels, height, width)


def mirror(pixels: NDArray[np.uint8], which: NDArray[np.bool_]) -> None:
    """Mirror some of the images (batch, height, width, channels) in place; in NumPy, this is four times slower."""
    places = np.flatnonzero(which)
    pixels[places] = torch.from_numpy(pixels[places]).flip(2).numpy()


ALL = slice(None)
Draw = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""The random numbers of one pass through the images, or of a part of it: image, top and left of its crop, mirrored or
not. A tuple, because a class with four named fields would take a hundredth of a small network's step."""


class Batches:
    """The batches of one training on the CPU. Differs from the paper if `size` is smaller than the images."""

    def __init__(
        self, data: Dataset, *, batch: int, seed: int, device: torch.device, size: tuple[int, int] | None = None
    ) -> None:
        self._data, self._batch, self._seed = data, min(batch, len(data.train_labels)), seed
        self._size = size or (data.height, data.width)
        self._normalise = Normaliser(data, device, self._size)
        self._windows = _windows(data, self._size)
        self._labels = np.asarray(data.train_labels, dtype=np.int64)
        self._shape = (*self._size, data.channels)
        self._passes: dict[int, Draw] = {}

    def __call__(self, step: int, part: slice = ALL) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a step, or a part of them; steps are numbered from 0."""
        order, top, left, flip = self.drawn(step, part)
        pixels = self._windows[order, top, left].reshape(-1, *self._shape)
        if self._data.flip:
            mirror(pixels, flip)
        return self._normalise(pixels), torch.from_numpy(self._labels[order])

    def drawn(self, step: int, part: slice = ALL) -> Draw:
        """Return the random numbers of a step, or of a part of it."""
        place, begin = divmod(step * self._batch, len(self._labels))
        first, last, _ = part.indices(self._batch)
        start, stop = begin + first, begin + last
        order, top, left, flip = self._pass(place)
        if stop > len(order):  # the batch reaches into the next pass
            both = zip((order, top, left, flip), self._pass(place + 1), strict=True)
            order, top, left, flip = (np.concatenate(pair) for pair in both)
        return order[start:stop], top[start:stop], left[start:stop], flip[start:stop]

    def _pass(self, place: int) -> Draw:
        if (known := self._passes.get(place)) is not None:
            return known
        self._passes = {n: drawn for n, drawn in self._passes.items() if n == place - 1}
        rng, images = np.random.default_rng((self._seed, place)), len(self._labels)
        rows, columns = self._windows.shape[1:3]
        top, left = rng.integers(0, [[rows], [columns]], (2, images))
        return self._passes.setdefault(place, (rng.permutation(images), top, left, rng.random(images) < 0.5))


def _windows(data: Dataset, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return all crops of all images as one view without copying: (image, top, left, row, bytes of the row)."""
    pixels = data.train_pixels
    image, row, column, _ = pixels.strides
    height, width = size
    rows, columns = data.height - height + 2 * data.pad + 1, data.width - width + 2 * data.pad + 1
    shape = (len(pixels), rows, columns, height, width * data.channels)
    return as_strided(pixels, shape, (image, row, column, row, 1), writeable=False)


class Resident(NamedTuple):
    """A data set's images and labels on a device."""

    train_pixels: Tensor
    train_labels: Tensor
    validation_pixels: Tensor


@lru_cache(maxsize=2)
def resident(data: Dataset, device: torch.device) -> Resident:
    """Copy the data set to the device; later trainings reuse the copy."""
    arrays = (data.train_pixels, data.train_labels, data.validation_pixels)
    return Resident(*(torch.from_numpy(np.array(array)).to(device) for array in arrays))


class ResidentBatches:
    """The same batches as those of `Batches`, from images on the device."""

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

    def __call__(self, step: int, part: slice = ALL) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a step, or a part of them; steps are numbered from 0."""
        numbers = torch.from_numpy(np.stack(self._drawn.drawn(step, part)))
        order, top, left, flip = numbers.to(self._rows.device, non_blocking=True)
        rows, columns = self._rows + top[:, None], self._columns.expand(len(order), -1)
        if self._flip:
            columns = torch.where(flip[:, None] > 0, columns.flip(1), columns)
        columns = columns + left[:, None]
        pixels = self._images.train_pixels[order[:, None, None], rows[:, :, None], columns[:, None, :]]
        return self._normalise.of_tensor(pixels), self._images.train_labels[order]


def batches_for(
    data: Dataset, *, batch: int, seed: int, device: torch.device, size: tuple[int, int] | None = None
) -> Batches | ResidentBatches:
    """On the CPU, images stay in memory-mapped files that all processes share; other devices get a copy."""
    kind = Batches if device.type == "cpu" else ResidentBatches
    return kind(data, batch=batch, seed=seed, device=device, size=size)
