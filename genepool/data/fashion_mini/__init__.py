"""fashion-mini, the small real data set shipped with Genepool: 8,000 images of Fashion-MNIST in ten equal classes.

`tools/make_fashion_mini.py` chose the images and made one sheet per part, which shows them class after class, row by
row. Fashion-MNIST is by Zalando SE, under the MIT licence in this folder.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from genepool.data.source import Development, Images, Listing
from genepool.errors import DataError, shown

__all__ = ["LISTING", "Contents", "FashionMini", "Sheet", "digest_of"]

HERE = Path(__file__).parent
SIDE = 28
COLUMNS = 100  # images per row of a sheet


class Sheet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part: a grey PNG with all its images."""

    file: str
    images_per_class: int
    sha256: str  # digest of the pixels, image after image


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    classes: tuple[str, ...]
    parts: dict[str, Sheet]


def digest_of(pixels: NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()


class FashionMini:
    name = "fashion-mini"
    flip = True

    def __init__(self, folder: Path = HERE) -> None:
        self._folder = folder

    @property
    def classes(self) -> tuple[str, ...]:
        return self._contents.classes

    def fingerprint(self) -> str:
        sheets = self._contents.parts
        return hashlib.sha256("".join(sheets[part].sha256 for part in sorted(sheets)).encode()).hexdigest()

    def development(self) -> Development:
        return Development.joined(self._images("train"), self._images("validation"))

    def held_out(self) -> Images:
        return self._images("test")

    @cached_property
    def _contents(self) -> Contents:
        path = self._folder / "fashion_mini.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Contents)
        except (OSError, msgspec.DecodeError) as error:
            raise DataError(f"'{shown(path)}' is missing or damaged ({error}); install Genepool again.") from error

    def _images(self, part: str) -> Images:
        sheet = self._contents.parts[part]
        path = self._folder / sheet.file
        try:
            with Image.open(path, formats=("PNG",)) as image:
                tiles = np.asarray(image, dtype=np.uint8).reshape(-1, SIDE, COLUMNS, SIDE)
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(f"'{shown(path)}' is missing or damaged ({error}); install Genepool again.") from error
        pixels = tiles.transpose(0, 2, 1, 3).reshape(-1, SIDE, SIDE, 1)
        if digest_of(pixels) != sheet.sha256:
            raise DataError(f"'{shown(path)}' is not the sheet that Genepool ships; install Genepool again.")
        labels = np.repeat(np.arange(len(self.classes), dtype=np.int64), sheet.images_per_class)
        return Images(pixels=pixels, labels=labels)


LISTING = Listing(
    name=FashionMini.name,
    train=6_000,
    validation=1_000,
    test=1_000,
    height=SIDE,
    width=SIDE,
    channels=1,
    classes=10,
    licence="MIT, 2017 Zalando SE",
    open=lambda data_dir, progress: FashionMini(),
)
