"""A custom data set: grey images of horizontal or vertical stripes, drawn when the source is opened.

    genepool run DIR --plugin examples/stripes_data.py --data stripes

A data set is a listing with its facts and a function that opens it as a source. Here the source has arrays, from which
Genepool splits off validation and test images.
"""

from pathlib import Path

import numpy as np

from genepool.data import SOURCES, ArraySource, Listing

IMAGES, SIZE = 600, 12


def stripes(data_dir: Path | None, progress: object) -> ArraySource:
    rng = np.random.default_rng(0)
    labels = np.arange(IMAGES) % 2
    rows = rng.integers(0, 200, (IMAGES, SIZE, 1)) + np.zeros((1, 1, SIZE), dtype=int)
    pixels = np.where(labels[:, None, None] == 1, rows.transpose(0, 2, 1), rows) + rng.integers(
        0, 55, (IMAGES, SIZE, SIZE)
    )
    return ArraySource(pixels.astype(np.uint8), labels, classes=("lying", "standing"), name="stripes")


SOURCES.register("stripes")(
    Listing(
        name="stripes",
        train=432,
        validation=48,
        test=120,
        height=SIZE,
        width=SIZE,
        channels=1,
        classes=2,
        licence="none needed",
        open=stripes,
    )
)
