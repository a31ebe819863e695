"""Images as a pretrained network expects them: converted to grey or colour, normalised by given numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from genepool.data.source import Development, Images, Source
from genepool.errors import SettingsError

LUMA = np.array([19595, 38470, 7471], dtype=np.uint32)  # ITU-R 601 in 65536ths, as Pillow converts image files
AT_A_TIME = 256  # images


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
    for start in range(0, len(pixels), AT_A_TIME):
        part = pixels[start : start + AT_A_TIME]
        result[start : start + AT_A_TIME] = part if channels == 3 else _grey(part)
    return result


def _grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    weighted = pixels.astype(np.uint32) @ LUMA  # (n, height, width)
    return ((weighted + 0x8000) >> 16).astype(np.uint8)[..., np.newaxis]
