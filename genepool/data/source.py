"""The interface of a source of images: labelled images for development, and a held-out test part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from genepool.errors import DataError

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes received so far and the total (None: unknown)."""
VALIDATION_SHARE = 0.1
"""The paper uses 5,000 of CIFAR's 50,000 training images for validation; other sets use the same fraction."""


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
