"""A data set of one's own: grey images of stripes that lie or stand, drawn when they are asked for.

    genepool run DIR --plugin examples/stripes_data.py --data stripes

A data set is a listing: what is known of it, and how to open it. What it opens is a source; here one of arrays, of
which Genepool splits off the validation and the test part by itself.
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
        licence="none needed: drawn, not taken",
        open=stripes,
    )
)
