"""The interface of a source of images: labelled images for development, and a held-out test part. And a source whose
images are as a pretrained network expects them: converted to grey or colour, normalised by given numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from genepool.data.free_memory import at_a_time
from genepool.errors import DataError, SettingsError

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes received so far and the total (None: unknown)."""
VALIDATION_SHARE = 0.1
"""The paper uses 5,000 of CIFAR's 50,000 training images for validation; other sets use the same fraction."""
LUMA = np.array([19595, 38470, 7471], dtype=np.uint32)  # ITU-R 601 in 65536ths, as Pillow converts image files


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Images:
    pixels: NDArray[np.uint8]  # (images, height, width, channels) with one channel (grey) or three (red, green, blue)
    labels: NDArray[np.int64]  # (images,): the index of each image's class in the source's `classes`

    def __post_init__(self) -> None:
        shape = self.pixels.shape
        if self.pixels.dtype != np.uint8 or len(shape) != 4 or shape[3] not in (1, 3):
            raise DataError(
                f"Images must be bytes in the shape (images, height, width, 1 or 3), not {self.pixels.dtype} {shape}."
            )
        if 0 in shape:
            raise DataError(f"Images must not be empty, but their shape is {shape}.")
        if self.labels.dtype != np.int64 or self.labels.shape != shape[:1]:
            raise DataError(
                f"There must be one int64 label for each of the {shape[0]} images, "
                f"not {self.labels.dtype} {self.labels.shape}."
            )
        if self.labels.min() < 0:
            raise DataError(f"A label must not be negative, but one is {self.labels.min()}.")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, which: NDArray[np.bool_]) -> Images:
        return Images(pixels=self.pixels[which], labels=self.labels[which])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Development:
    """The images that may be used while networks evolve: the training and the validation part."""

    images: Images
    validation: NDArray[np.bool_] | None = None  # which images are for validation; None: split off a share by seed
    validation_share: float = VALIDATION_SHARE

    def __post_init__(self) -> None:
        if not 0.0 < self.validation_share < 1.0:
            raise DataError(f"The validation share must be between 0 and 1, not {self.validation_share}.")
        mask = self.validation
        if mask is None:
            return
        if mask.dtype != np.bool_ or mask.shape != self.images.labels.shape:
            raise DataError(f"The validation mask must be {len(self.images)} booleans, not {mask.dtype} {mask.shape}.")
        if not mask.any() or mask.all():
            raise DataError("The validation mask must leave at least one image for training and one for validation.")

    @classmethod
    def joined(cls, train: Images, validation: Images) -> Development:
        pixels = np.concatenate([train.pixels, validation.pixels])
        labels = np.concatenate([train.labels, validation.labels])
        return cls(images=Images(pixels=pixels, labels=labels), validation=np.arange(len(labels)) >= len(train))


class Source(Protocol):
    """A source of images. Opening one is cheap; images are read when needed."""

    @property
    def name(self) -> str:
        """A name for people and file names."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the labels."""

    @property
    def flip(self) -> bool:
        """Whether an image's mirror image is an equally good example of its class (not so for digits)."""

    def fingerprint(self) -> str:
        """A short text that changes when the files change; computed without decoding images."""

    def development(self) -> Development:
        """Read the training and validation images."""

    def held_out(self) -> Images:
        """Read the test images. Only `genepool.nn.final_test` may call this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A data set that can be opened by name; other packages add theirs as entry points in `genepool.datasets`."""

    name: str
    train: int
    """The number of training images."""
    validation: int
    test: int
    height: int
    width: int
    channels: int
    classes: int
    licence: str
    open: Callable[[Path | None, Progress | None], Source]
    """Opens it, from that data folder if it is there; may download it."""
    find: Callable[[Path | None], Path | None] | None = None
    """Returns its place on this machine, or None; a listing without `find` is shipped with its package."""
    fetch: Callable[[Progress | None], Path] | None = None
    """Downloads it and returns its place."""


class AdaptedSource:
    """Another source whose images have `channels` channels. `mean` and `std` (one number per channel) replace those of
    the training images; None keeps what the source has."""

    def __init__(
        self,
        source: Source,
        *,
        channels: int | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        self.name, self.flip = source.name, source.flip
        self.original, self._channels, self._mean, self._std = source, channels, mean, std
        if not all(math.isfinite(value) for value in (*(mean or ()), *(std or ()))) or not all(std or ()):
            raise SettingsError("The numbers in data.mean must be finite, and those in data.std above 0.")

    @property
    def classes(self) -> tuple[str, ...]:
        return self.original.classes

    def fingerprint(self) -> str:
        facts = (self.original.fingerprint(), self._channels, self._mean, self._std)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def development(self) -> Development:
        found = self.original.development()
        return replace(found, images=self._converted(found.images))

    def held_out(self) -> Images:
        return self._converted(self.original.held_out())

    def _converted(self, images: Images) -> Images:
        if self._channels is None:
            return images
        return Images(pixels=converted(images.pixels, self._channels), labels=images.labels)

    def moments(self, mean: tuple[float, ...], std: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The numbers to normalise by, given those of the training images."""
        found = tuple(self._mean or mean), tuple(self._std or std)
        if {len(found[0]), len(found[1])} != {len(mean)}:
            numbers = "one number" if len(mean) == 1 else f"{len(mean)} numbers"
            raise SettingsError(f"data.mean and data.std must have {numbers} each, one per channel of the images.")
        return found


def original(source: Source) -> Source:
    """Return the source that an adapted one reads from, or the source itself."""
    return source.original if isinstance(source, AdaptedSource) else source


def converted(pixels: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """Return images (n, height, width, 1 or 3) with that number of channels."""
    if pixels.shape[3] == channels:
        return pixels
    result = np.empty((*pixels.shape[:3], channels), dtype=np.uint8)
    step = at_a_time(math.prod(pixels.shape[1:]))
    for start in range(0, len(pixels), step):
        part = pixels[start : start + step]
        result[start : start + step] = part if channels == 3 else _grey(part)
    return result


def _grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    weighted = pixels.astype(np.uint32) @ LUMA  # (n, height, width)
    return ((weighted + 0x8000) >> 16).astype(np.uint8)[..., np.newaxis]
