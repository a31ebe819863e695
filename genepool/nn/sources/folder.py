"""A folder of images, one sub-folder a class: of any size, grey or colour, brought to one size."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genepool.errors import DataError, SettingsError, shown
from genepool.nn.sources.base import Development, Images
from genepool.nn.sources.pictures import read_facts, read_pixels
from genepool.nn.sources.room import check_room
from genepool.nn.sources.splits import held_out_mask
from genepool.nn.sources.tree import ImageFile, read_tree

LARGEST_SIDE = 1024
"""That a user may ask for."""
LARGEST_MEDIAN_SIDE = 256
"""Photographs are brought down to this where no size is asked for."""

Frame = tuple[int, int, int]
"""Height, width and channels of every image."""


class FolderSource:
    """Images of a folder. The list of files is read on opening, the images when they are asked for.

    The size, where none is given, is the median height and width of the development images; they are grey if all of
    these are. The test images have no say in either.
    """

    def __init__(self, path: Path, *, size: tuple[int, int] | None = None, flip: bool = True) -> None:
        if size is not None and not all(1 <= side <= LARGEST_SIDE for side in size):
            raise SettingsError(f"The image size {size[0]}x{size[1]} is not within 1x1 and {LARGEST_SIDE} both ways.")
        self.name = shown(path.resolve().name) or "images"
        self.flip = flip
        self._path = path
        self._size = size
        self._tree = read_tree(path)
        self.classes = self._tree.classes

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{shown(self._path.resolve())} {self._size}".encode())
        for file in self._tree.files():
            name = shown(file.path.relative_to(self._path))
            digest.update(f"\n{name} {file.label} {file.size} {file.changed}".encode())
        return digest.hexdigest()

    def development(self) -> Development:
        """Test images are decoded too, and forgotten: a damaged one should stop a run at its beginning."""
        train, test = self._split
        files = (*train, *self._tree.validation)
        frame = self._frame
        images = _decode(files, frame)
        for file in test:
            read_facts(file.path)
            read_pixels(file.path, height=frame[0], width=frame[1], channels=frame[2])
        if not self._tree.validation:
            return Development(images=images)
        return Development(images=images, validation=np.arange(len(files)) >= len(train))

    def held_out(self) -> Images:
        return _decode(self._split[1], self._frame)

    @cached_property
    def _split(self) -> tuple[Sequence[ImageFile], Sequence[ImageFile]]:
        """The files of the training part (and validation, if it has no folder of its own) and of the test part."""
        train = self._tree.train
        if self._tree.test:
            return train, self._tree.test
        held_out = held_out_mask(np.array([file.label for file in train], dtype=np.int64))
        kept = [file for file, out in zip(train, held_out, strict=True) if not out]
        return kept, [file for file, out in zip(train, held_out, strict=True) if out]

    @cached_property
    def _frame(self) -> Frame:
        facts = [read_facts(file.path) for file in (*self._split[0], *self._tree.validation)]
        channels = 1 if all(fact.grey for fact in facts) else 3
        if self._size is not None:
            return (*self._size, channels)
        height = float(np.median([fact.height for fact in facts]))
        width = float(np.median([fact.width for fact in facts]))
        shrink = min(1.0, LARGEST_MEDIAN_SIDE / max(height, width))
        return max(1, round(height * shrink)), max(1, round(width * shrink)), channels


def _decode(files: Sequence[ImageFile], frame: Frame) -> Images:
    """One image at a time straight into the array: the memory is that of the result and of one image."""
    height, width, channels = frame
    pixels = _room((len(files), height, width, channels))
    for row, file in enumerate(files):
        pixels[row] = read_pixels(file.path, height=height, width=width, channels=channels)
    return Images(pixels=pixels, labels=np.array([file.label for file in files], dtype=np.int64))


def _room(shape: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    what, advice = f"{shape[0]} images of {shape[1]}x{shape[2]}", "choose a smaller size (--size)"
    check_room(math.prod(shape), what, advice)
    try:
        return np.empty(shape, dtype=np.uint8)
    except (MemoryError, ValueError) as error:
        raise DataError(f"{what} do not fit into memory; {advice}.") from error
