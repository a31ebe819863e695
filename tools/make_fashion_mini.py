"""Build the sheets of fashion-mini from the official files of Fashion-MNIST, always with identical pixels.

    GENEPOOL_DATA=folder python tools/make_fashion_mini.py [target folder]

Training images: the first 600 of each class in the original training set; validation: the next 100; test: the first
100 of each class in the original test set.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from genepool.data import Images, open_source
from genepool.data.fashion_mini import COLUMNS, HERE, SIDE, Contents, Sheet, digest_of


def chosen(images: Images, start: int, stop: int) -> NDArray[np.uint8]:
    """Images `start` to `stop` of each class, class by class."""
    members = [np.flatnonzero(images.labels == label)[start:stop] for label in range(10)]
    return images.pixels[np.concatenate(members)]


def write_sheet(pixels: NDArray[np.uint8], folder: Path, part: str) -> Sheet:
    """One PNG with the images side by side, COLUMNS in a row."""
    file = f"{part}.png"
    tiles = pixels.reshape(-1, COLUMNS, SIDE, SIDE).transpose(0, 2, 1, 3)
    Image.fromarray(np.ascontiguousarray(tiles).reshape(-1, COLUMNS * SIDE)).save(folder / file, optimize=True)
    return Sheet(file=file, images_per_class=len(pixels) // 10, sha256=digest_of(pixels))


def build(folder: Path) -> Contents:
    """Write the three sheets and their JSON file."""
    source = open_source("fashion-mnist")
    training, held_out = source.development().images, source.held_out()
    parts = {
        "train": chosen(training, 0, 600),
        "validation": chosen(training, 600, 700),
        "test": chosen(held_out, 0, 100),
    }
    sheets = {part: write_sheet(pixels, folder, part) for part, pixels in parts.items()}
    contents = Contents(classes=source.classes, parts=sheets)
    text = msgspec.json.format(msgspec.json.encode(contents), indent=2)
    (folder / "fashion_mini.json").write_bytes(text + b"\n")
    return contents


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for part, sheet in build(target).parts.items():
        print(f"{part}: {sheet.images_per_class} images per class, {(target / sheet.file).stat().st_size:,} bytes")
