"""The idx layout of MNIST and Fashion-MNIST.

Big-endian numbers of four bytes: a magic number that tells type and dimensions (2051: images, 2049: labels), the length
of each dimension; then one byte a pixel or a label.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genepool.errors import DataError
from genepool.nn.sources.base import Images
from genepool.nn.sources.official_files import OfficialFile

IMAGES_MAGIC = 2051
LABELS_MAGIC = 2049


@dataclass(frozen=True, slots=True, kw_only=True)
class IdxLayout:
    """Pairs of files, images and labels, of the training and the test part."""

    train_images: int = 60_000
    test_images: int = 10_000
    side: int = 28
    classes: int = 10

    @property
    def train(self) -> tuple[str, ...]:
        """The files of the training part."""
        return ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")

    @property
    def test(self) -> tuple[str, ...]:
        """The files of the test part."""
        return ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

    def _header(self, name: str) -> tuple[int, ...]:
        """The numbers that must stand at the beginning of a file of that name."""
        count = self.train_images if name in self.train else self.test_images
        return (IMAGES_MAGIC, count, self.side, self.side) if "images" in name else (LABELS_MAGIC, count)

    def size_of(self, name: str) -> int:
        """The bytes that a file of that name must hold."""
        header = self._header(name)
        return 4 * len(header) + int(np.prod(header[1:]))

    def decode(self, files: Sequence[OfficialFile]) -> Images:
        """The images of one part, from its image file and its label file."""
        for file in files:
            self._check_header(file)
        pictures, names = files
        pixels = np.frombuffer(pictures.content, dtype=np.uint8, offset=16).reshape(-1, self.side, self.side, 1)
        labels = np.frombuffer(names.content, dtype=np.uint8, offset=8)
        wrong = np.flatnonzero(labels >= self.classes)
        if len(wrong):
            raise DataError(
                f"Label {wrong[0]} of '{names.where}' is {labels[wrong[0]]}, but there are only {self.classes} "
                f"classes: the file is damaged; get it again."
            )
        return Images(pixels=pixels, labels=labels.astype(np.int64))

    def _check_header(self, file: OfficialFile) -> None:
        expected = self._header(file.name)
        found = struct.unpack_from(f">{len(expected)}I", file.content)
        if found != expected:
            raise DataError(
                f"'{file.where}' begins with the numbers {found} instead of {expected}: it is not the idx file "
                f"'{file.name}'; get it again."
            )
