"""Model: a trained network with what is known of it, out of an experiment or an exported file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genepool.data.arrays import to_pixels
from genepool.data.dataset import prepare
from genepool.dna import DNA
from genepool.errors import DataError, shown
from genepool.experiment import Experiment
from genepool.experiment.publish import take
from genepool.export.facts import Facts
from genepool.export.formats import read_model
from genepool.export.network import Network
from genepool.export.source import document
from genepool.nn.weights import write_weights


class Model:
    """Says what images show. Made by `Model.of(experiment)` or `Model.load(path)`."""

    def __init__(self, facts: Facts, network: Network) -> None:
        self.facts, self.network = facts, network

    @classmethod
    def of(cls, experiment: Experiment, *identities: str, data_dir: Path | None = None) -> Model:
        """The best individual of an experiment, the one named, or several as an ensemble."""
        taken = take(experiment, experiment.history(), identities, prepare(experiment.source(data_dir)))
        return cls(taken.facts, taken.network)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """What `save` or `genepool export` wrote, in any format; nothing in it is run."""
        return cls(*read_model(Path(path)))

    @property
    def classes(self) -> tuple[str, ...]:
        """In the order of the probabilities."""
        return self.facts.classes

    @property
    def dna(self) -> DNA:
        """Of the first network, where there are several."""
        return self.facts.members[0].decoded()

    def probabilities(self, images: ArrayLike) -> NDArray[np.float32]:
        """(n, classes), of images as bytes: (n, height, width) or (n, height, width, channels)."""
        pixels = to_pixels(images, 1.0, "images")
        if pixels.shape[1:] != tuple(self.facts.image):
            raise DataError(f"The images have the shape {pixels.shape[1:]}, but the model's {tuple(self.facts.image)}.")
        return self.network.predict(pixels)

    def predict(self, images: ArrayLike) -> list[str]:
        """The likeliest class of each image."""
        return [self.classes[place] for place in self.probabilities(images).argmax(1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as one .safetensors file, which `load` and `genepool predict` read."""
        target = Path(path)
        if target.suffix != ".safetensors":
            raise DataError(f"The name '{shown(target)}' must end in .safetensors.")
        write_weights(document(self.network, self.facts), target)
