"""Real images that come with scikit-learn, in the forms in which people have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

CROPS = 36
"""Of each photograph."""


def photographs(folder: Path, crops: int = CROPS) -> Path:
    """Crops of two photographs as a folder of two classes: of unequal sizes, in every mode and format."""
    rng = np.random.default_rng(0)
    for name, pixels in zip(("temple", "dahlia"), load_sample_images().images, strict=True):
        (folder / name).mkdir(parents=True)
        for number in range(crops):
            height, width = rng.integers(20, 60, 2)
            top, left = rng.integers(0, pixels.shape[0] - height), rng.integers(0, pixels.shape[1] - width)
            crop = Image.fromarray(pixels[top : top + height, left : left + width])
            FORMS[number % len(FORMS)](crop, folder / name / f"{number:03}")
    return folder


def digits(path: Path) -> Path:
    """1,797 handwritten digits of 8x8 pixels as a .npz file."""
    images = load_digits()
    np.savez(path, x_train=(images.images * 15).astype(np.uint8), y_train=images.target)
    return path


def _jpeg(crop: Image.Image, path: Path) -> None:
    crop.save(path.with_suffix(".jpg"), quality=95)


def _grey(crop: Image.Image, path: Path) -> None:
    crop.convert("L").save(path.with_suffix(".png"))


def _palette(crop: Image.Image, path: Path) -> None:
    crop.quantize(64).save(path.with_suffix(".png"))


def _transparent(crop: Image.Image, path: Path) -> None:
    crop.putalpha(Image.linear_gradient("L").resize(crop.size))
    crop.save(path.with_suffix(".png"))


def _sixteen_bit(crop: Image.Image, path: Path) -> None:
    Image.fromarray(np.asarray(crop.convert("L")).astype(np.uint16) * 257).save(path.with_suffix(".png"))


def _turned(crop: Image.Image, path: Path) -> None:
    """As cameras do: lying on its side, and a note that says so."""
    exif = Image.Exif()
    exif[0x0112] = 6
    crop.transpose(Image.Transpose.ROTATE_90).save(path.with_suffix(".jpg"), quality=95, exif=exif)


def _animated(crop: Image.Image, path: Path) -> None:
    crop.save(path.with_suffix(".gif"), save_all=True, append_images=[crop.rotate(90), crop.rotate(180)])


def _cmyk(crop: Image.Image, path: Path) -> None:
    crop.convert("CMYK").save(path.with_suffix(".tiff"))


def _webp(crop: Image.Image, path: Path) -> None:
    crop.save(path.with_suffix(".webp"), lossless=True)


FORMS = (_jpeg, _grey, _palette, _transparent, _sixteen_bit, _turned, _animated, _cmyk, _webp)
