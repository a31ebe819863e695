"""The binary layout of CIFAR-10 and CIFAR-100.

A file is a row of records of equal length. A record is one label byte (CIFAR-100: two, the coarse label before the fine
one) and 3,072 pixel bytes: the red plane of 32 rows of 32 pixels, then the green, then the blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genepool.errors import DataError
from genepool.nn.sources.base import Images
from genepool.nn.sources.official_files import OfficialFile

SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class CifarLayout:
    """Which files hold the training and the test part, and what a record looks like."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    train_records: int
    """In each training file."""
    test_records: int
    """In each test file."""
    label_bytes: int
    """The last of them is the label."""
    classes: int

    def size_of(self, name: str) -> int:
        """The bytes that a file of that name must hold."""
        records = self.train_records if name in self.train else self.test_records
        return records * (self.label_bytes + PIXEL_BYTES)

    def decode(self, files: Sequence[OfficialFile]) -> Images:
        """The images of one part."""
        length = self.label_bytes + PIXEL_BYTES
        counts = [len(file.content) // length for file in files]
        pixels = np.empty((sum(counts), SIDE, SIDE, 3), dtype=np.uint8)
        labels = np.empty(sum(counts), dtype=np.int64)
        start = 0
        for file, count in zip(files, counts, strict=True):
            records = np.frombuffer(file.content, dtype=np.uint8).reshape(count, length)
            self._check_labels(file.where, records[:, self.label_bytes - 1])
            labels[start : start + count] = records[:, self.label_bytes - 1]
            planes = records[:, self.label_bytes :].reshape(count, 3, SIDE, SIDE)
            pixels[start : start + count] = planes.transpose(0, 2, 3, 1)
            start += count
        return Images(pixels=pixels, labels=labels)

    def _check_labels(self, where: str, labels: np.ndarray) -> None:
        wrong = np.flatnonzero(labels >= self.classes)
        if len(wrong):
            raise DataError(
                f"Record {wrong[0]} of '{where}' has the label {labels[wrong[0]]}, but there are only {self.classes} "
                f"classes: the file is damaged; get it again."
            )
