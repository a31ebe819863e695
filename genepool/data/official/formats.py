"""The binary layouts of CIFAR-10 and CIFAR-100, and the idx layout of MNIST and Fashion-MNIST.

A CIFAR file is a sequence of records of equal length: one label byte (CIFAR-100: two, the coarse label before the fine
one) and 3,072 pixel bytes: the red plane of 32 rows of 32 pixels, then green, then blue.

An idx file starts with big-endian numbers of four bytes: a magic number for type and dimensions (2051: images, 2049:
labels) and the length of each dimension; then follows one byte per pixel or label.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genepool.data.official.files import OfficialFile
from genepool.data.source import Images
from genepool.errors import DataError

SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class CifarLayout:
    """The files of the training and the test part, and the layout of a record."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    train_records: int
    """Records per training file."""
    test_records: int
    label_bytes: int
    """The last of these bytes is the label."""
    classes: int

    def size_of(self, name: str) -> int:
        """Return the size that a file of that name must have."""
        records = self.train_records if name in self.train else self.test_records
        return records * (self.label_bytes + PIXEL_BYTES)

    def decode(self, files: Sequence[OfficialFile]) -> Images:
        """Decode the images of one part."""
        length = self.label_bytes + PIXEL_BYTES
        counts = [len(file.content) // length for file in files]
        pixels = np.empty((sum(counts), SIDE, SIDE, 3), dtype=np.uint8)
        labels = np.empty(sum(counts), dtype=np.int64)
        start = 0
        for file, count in zip(files, counts, strict=True):
            records = np.frombuffer(file.content, dtype=np.uint8).reshape(count, length)
            self._check_labels(file.where, records[:, self.label_bytes - 1])
            labels[start : start + count] = records[:, self.label_bytes - 1]
            planes = records[:, self.label_bytes :].reshape(count, 3, SIDE, SIDE)  # (images, channels, height, width)
            pixels[start : start + count] = planes.transpose(0, 2, 3, 1)
            start += count
        return Images(pixels=pixels, labels=labels)

    def _check_labels(self, where: str, labels: np.ndarray) -> None:
        wrong = np.flatnonzero(labels >= self.classes)
        if len(wrong):
            raise DataError(
                f"Record {wrong[0]} of '{where}' has the label {labels[wrong[0]]}, but there are only {self.classes} "
                f"classes: the file is damaged; download it again."
            )


IMAGES_MAGIC = 2051
LABELS_MAGIC = 2049


@dataclass(frozen=True, slots=True, kw_only=True)
class IdxLayout:
    """Pairs of files with images and labels, for the training and the test part."""

    train: tuple[str, ...] = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    test: tuple[str, ...] = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    train_images: int = 60_000
    test_images: int = 10_000
    side: int = 28
    classes: int = 10

    def _header(self, name: str) -> tuple[int, ...]:
        count = self.train_images if name in self.train else self.test_images
        return (IMAGES_MAGIC, count, self.side, self.side) if "images" in name else (LABELS_MAGIC, count)

    def size_of(self, name: str) -> int:
        """Return the size that a file of that name must have."""
        header = self._header(name)
        return 4 * len(header) + int(np.prod(header[1:]))

    def decode(self, files: Sequence[OfficialFile]) -> Images:
        """Decode the images of one part from its image file and its label file."""
        for file in files:
            self._check_header(file)
        pictures, names = files
        pixels = np.frombuffer(pictures.content, dtype=np.uint8, offset=16).reshape(-1, self.side, self.side, 1)
        labels = np.frombuffer(names.content, dtype=np.uint8, offset=8)
        wrong = np.flatnonzero(labels >= self.classes)
        if len(wrong):
            raise DataError(
                f"Label {wrong[0]} of '{names.where}' is {labels[wrong[0]]}, but there are only {self.classes} "
                f"classes: the file is damaged; download it again."
            )
        return Images(pixels=pixels, labels=labels.astype(np.int64))

    def _check_header(self, file: OfficialFile) -> None:
        expected = self._header(file.name)
        found = struct.unpack_from(f">{len(expected)}I", file.content)
        if found != expected:
            raise DataError(
                f"'{file.where}' starts with the numbers {found} instead of {expected}: it is not the idx file "
                f"'{file.name}'; download it again."
            )
