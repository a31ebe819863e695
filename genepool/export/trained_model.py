"""TrainedModel: a trained network, from an experiment or an exported file, that classifies images and image files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from genepool.data import DESKTOP_LITTER, read_header, read_pixels, save_file, to_pixels
from genepool.dna import DNA
from genepool.errors import DataError, shown
from genepool.export.facts import Facts
from genepool.export.network import Network
from genepool.export.publish import read_model
from genepool.export.source import document

MAX_VALUES = 2**24  # the most pixel values held in memory at a time
BATCH = 64


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """A class and its probability."""

    label: str
    probability: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for one image file. The keys of its JSON form are documented."""

    image: str
    guesses: tuple[Guess, ...] = ()
    """The likeliest class first."""
    error: str | None = None
    """Why the image could not be read."""


class TrainedModel:
    """A trained network ready to predict. Made by `experiment.model()` or `TrainedModel.load(path)`."""

    def __init__(self, facts: Facts, network: Network) -> None:
        self.facts, self.network = facts, network

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TrainedModel:
        """Read what `save` or `genepool export` wrote, in any format; nothing in it is run."""
        return cls(*read_model(Path(path)))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of the probabilities."""
        return self.facts.classes

    @property
    def dna(self) -> DNA:
        """The DNA of the network, or of the first network of an ensemble."""
        return self.facts.members[0].decoded()

    def probabilities(self, images: ArrayLike) -> NDArray[np.float32]:
        """Return probabilities (n, classes) for uint8 images (n, height, width) or (n, height, width, channels)."""
        pixels = to_pixels(images, 1.0, "images")
        if pixels.shape[1:] != tuple(self.facts.image):
            raise DataError(f"The images have the shape {pixels.shape[1:]}, but the model's {tuple(self.facts.image)}.")
        return self.network.predict(pixels)

    def predict(self, images: ArrayLike) -> list[str]:
        """Return the likeliest class of each image."""
        return [self.classes[place] for place in self.probabilities(images).argmax(1)]

    def predict_files(self, files: Iterable[Path], top: int) -> Iterator[Prediction]:
        """Predict the `top` likeliest classes of each file, in order; an unreadable file does not stop the others."""
        room, left = max(1, min(BATCH, MAX_VALUES // self.facts.image.values)), iter(files)
        while batch := list(islice(left, room)):
            yield from self._predict_batch(batch, top)

    def _predict_batch(self, files: list[Path], top: int) -> Iterator[Prediction]:
        pixels = [_image_or_error(path, self.facts) for path in files]
        good = [image for image in pixels if not isinstance(image, DataError)]
        answers = iter(self.network.predict(np.stack(good)) if good else ())
        for path, image in zip(files, pixels, strict=True):
            if isinstance(image, DataError):
                yield Prediction(image=str(path), error=str(image))
            else:
                yield Prediction(image=str(path), guesses=_likeliest(next(answers), self.classes, top))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one .safetensors file, which `load` and `genepool predict` read."""
        target = Path(path)
        if target.suffix != ".safetensors":
            raise DataError(f"The name '{shown(target)}' must end in .safetensors.")
        save_file(target, document(self.network, self.facts), "model")


def image_files(places: Iterable[Path]) -> Iterator[Path]:
    """Yield files as given, and every file below a folder except hidden ones and desktop litter."""
    for place in places:
        if not os.path.isdir(place):  # noqa: PTH112 - pathlib's raises on names that are too long
            yield place
            continue
        paths = _below(place)
        if (first := next(paths, None)) is None:
            raise DataError(f"There is no image in the folder '{shown(place)}'.")
        yield first
        yield from paths


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder. Links to folders are not followed, since they may form loops."""

    def refuse(error: OSError) -> None:
        raise DataError(f"The folder '{shown(error.filename)}' cannot be read: {error.strerror}.") from None

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if _wanted(name))
        yield from (Path(root, name) for name in sorted(names) if _wanted(name))


def _wanted(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in DESKTOP_LITTER


def read_image(path: Path, facts: Facts) -> NDArray[np.uint8]:
    """Read an image file in the same way as the training images."""
    read_header(path)
    return read_pixels(path, height=facts.height, width=facts.width, channels=facts.channels)


def _image_or_error(path: Path, facts: Facts) -> NDArray[np.uint8] | DataError:
    try:
        return read_image(path, facts)
    except DataError as error:
        return error


def _likeliest(answer: NDArray[np.float32], classes: tuple[str, ...], top: int) -> tuple[Guess, ...]:
    places = np.argsort(-answer, kind="stable")[:top]
    return tuple(Guess(label=classes[place], probability=float(answer[place])) for place in places)
