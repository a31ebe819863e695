"""Small image folders and places of their own for the tests of the data layer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from genepool.data import ArraySource

MakeFolder = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch) -> None:
    """No test sees the user's folders or mirror, or the network."""
    monkeypatch.setenv("GENEPOOL_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy"):  # nobody listens there: only this machine can be reached
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("GENEPOOL_DATA", "GENEPOOL_MIRROR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def picture() -> Callable[..., Image.Image]:
    """A random image of that mode and size."""

    def make(mode: str = "RGB", width: int = 12, height: int = 10, seed: int = 0) -> Image.Image:
        channels = {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
        return Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode=None if mode != "CMYK" else mode)

    return make


@pytest.fixture
def image_folder(tmp_path, picture) -> MakeFolder:
    """A folder of that many random PNGs for each class."""

    def make(counts: dict[str, int], *, root: str = "images", mode: str = "RGB", **size: int) -> Path:
        for number, (name, count) in enumerate(counts.items()):
            folder = tmp_path / root / name
            folder.mkdir(parents=True)
            for image in range(count):
                picture(mode, seed=1000 * number + image, **size).save(folder / f"{image:03}.png")
        return tmp_path / root

    return make


@pytest.fixture
def numbered() -> Callable[..., ArraySource]:
    """A source whose images carry their own number in their pixels, so that one can be recognised anywhere."""

    def make(counts: list[int], **parts: object) -> ArraySource:
        labels = np.repeat(np.arange(len(counts)), counts)
        return ArraySource(number_images(range(len(labels))), labels, name="numbered", **parts)

    return make


def number_images(numbers: range) -> np.ndarray:
    """(n, 4, 4): each image all of two bytes that spell its number."""
    values = np.array(numbers)
    images = np.zeros((len(values), 4, 4), dtype=np.uint8)
    images[:, :2] = (values // 256)[:, None, None]
    images[:, 2:] = (values % 256)[:, None, None]
    return images


@pytest.fixture
def numbers_of() -> Callable[[np.ndarray], set[int]]:
    """The numbers of images that `numbered` made, from pixels that may be padded."""

    def read(pixels: np.ndarray, pad: int = 0) -> set[int]:
        first, last = pixels[:, pad, pad, 0].astype(int), pixels[:, pad + 3, pad, 0].astype(int)
        found = (256 * first + last).tolist()
        assert len(set(found)) == len(found), "an image occurs twice"
        return set(found)

    return read
