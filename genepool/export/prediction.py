"""Image files and what a model says of them: a few at a time, and a bad one stops nobody."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.data.image_files import read_facts, read_pixels
from genepool.data.image_folder import LITTER
from genepool.errors import DataError, shown
from genepool.export.facts import Facts
from genepool.export.network import Network

MAX_VALUES = 2**24
"""Pixels that are held at a time, whatever their size."""
BATCH = 64


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """One class, and how likely it is."""

    label: str
    probability: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one image; the keys of its JSON form are documented and stay."""

    image: str
    guesses: tuple[Guess, ...] = ()
    """The likeliest first."""
    error: str | None = None
    """Why the image could not be read."""


def predictions(facts: Facts, network: Network, files: Iterable[Path], top: int) -> Iterator[Prediction]:
    """One for each file, in their order."""
    room = max(1, min(BATCH, MAX_VALUES // facts.image.values))
    waiting: list[Path] = []
    for path in files:
        waiting.append(path)
        if len(waiting) == room:
            yield from _answered(facts, network, waiting, top)
            waiting = []
    yield from _answered(facts, network, waiting, top)


def image_files(places: Iterable[Path]) -> Iterator[Path]:
    """Files as they were named; of folders every file below, but not hidden ones nor what desktops leave behind."""
    for place in places:
        if not os.path.isdir(place):  # noqa: PTH112 - pathlib's raises on names that are too long
            yield place
            continue
        found = False
        for path in _below(place):
            found = True
            yield path
        if not found:
            raise DataError(f"There is no image in the folder '{shown(place)}'.")


def _below(folder: Path) -> Iterator[Path]:
    """Links to folders are not followed: they may lead round in circles."""

    def refuse(error: OSError) -> None:
        raise DataError(f"The folder '{shown(error.filename)}' cannot be read: {error.strerror}.") from None

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if _wanted(name))
        yield from (Path(root, name) for name in sorted(names) if _wanted(name))


def _wanted(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in LITTER


def _answered(facts: Facts, network: Network, files: list[Path], top: int) -> Iterator[Prediction]:
    pixels = [_attempt(path, facts) for path in files]
    good = [image for image in pixels if not isinstance(image, DataError)]
    answers = iter(network.predict(np.stack(good)) if good else ())
    for path, image in zip(files, pixels, strict=True):
        if isinstance(image, DataError):
            yield Prediction(image=str(path), error=str(image))
        else:
            yield Prediction(image=str(path), guesses=_likeliest(next(answers), facts.classes, top))


def read_image(path: Path, facts: Facts) -> NDArray[np.uint8]:
    """One image as the training images were read."""
    read_facts(path)
    return read_pixels(path, height=facts.height, width=facts.width, channels=facts.channels)


def _attempt(path: Path, facts: Facts) -> NDArray[np.uint8] | DataError:
    try:
        return read_image(path, facts)
    except DataError as error:
        return error


def _likeliest(answer: NDArray[np.float32], classes: tuple[str, ...], top: int) -> tuple[Guess, ...]:
    places = np.argsort(-answer, kind="stable")[:top]
    return tuple(Guess(label=classes[place], probability=float(answer[place])) for place in places)
