"""The one door to the test images. Evolution and training never come here; whoever reports a chosen model does."""

from __future__ import annotations

from genepool.errors import DataError
from genepool.nn.accuracy import accuracy
from genepool.nn.augment import Normaliser
from genepool.nn.data import Dataset
from genepool.nn.model import Model
from genepool.nn.sources import Source


def test_accuracy(model: Model, source: Source, data: Dataset, normalise: Normaliser) -> float:
    """The share of the test images that the model classifies correctly."""
    images = source.held_out()
    if images.pixels.shape[1:] != tuple(data.image):
        raise DataError(f"The test images of '{source.name}' have another size than its training images.")
    return accuracy(model, images.pixels, images.labels, normalise)
