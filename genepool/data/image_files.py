"""One image file: its header and its pixels as bytes. The only module that decodes users' files. Grey or colour, 1 to
16 bits, palettes, transparency (on white), cameras' orientation, animations (first frame).
"""

from __future__ import annotations

import logging
import stat
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from genepool.errors import DataError, shown

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 64_000_000
STRIP = 2**20  # pixels converted at a time
ORIENTATION = 0x0112
GREY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N")
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
DECODER_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, LookupError, MemoryError, OSError,
    RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
"""The exceptions that Pillow's decoders raise on damaged files."""
TURNS = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
TRANSPOSITIONS = {number: Image.Transpose[name] for number, name in enumerate(TURNS, start=2)}


class _UnusableError(Exception):
    """A valid image whose pixels cannot be turned into bytes; the text says what they are."""


class ImageHeader(NamedTuple):
    height: int  # after applying the camera's orientation
    width: int
    grey: bool


def read_header(path: Path) -> ImageHeader:
    """Read size and kind without decoding; refuse files that are not images, too large, or have a wrong checksum."""
    with _opened(path) as image:
        width, height = image.size
        if image.format != "TIFF" and _orientation(image, decoded=False) >= 5:
            width, height = height, width
        header = ImageHeader(height, width, _is_grey(image))
        image.verify()
    return header


def read_pixels(path: Path, *, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    with _opened(path) as image:
        image.load()
        plain = _opaque(image, "L" if channels == 1 else "RGB")
        if (turn := TRANSPOSITIONS.get(_orientation(image, decoded=True))) is not None:
            plain = plain.transpose(turn)
        if plain.size != (width, height):
            plain = plain.resize((width, height), Image.Resampling.BICUBIC)
        return np.asarray(plain, dtype=np.uint8).reshape(height, width, channels)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open the image and check its size; any error becomes a sentence that names the file."""
    try:
        _check_file(path)
        with _quiet(), path.open("rb") as stream:
            image = Image.open(stream, formats=FORMATS)
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            if 0 in image.size:
                raise DataError(f"The image '{shown(path)}' has no pixels; replace or remove it.")
            yield image
    except Image.DecompressionBombError as error:
        raise DataError(
            f"The image '{shown(path)}' has more than {MAX_PIXELS // 10**6} million pixels; make it smaller."
        ) from error
    except UnidentifiedImageError as error:
        raise DataError(
            f"'{shown(path)}' is not a readable image (PNG, JPEG, WebP, GIF, BMP or TIFF); remove it."
        ) from error
    except _UnusableError as error:
        raise DataError(
            f"The image '{shown(path)}' cannot be used because its pixels are {error}; save it with 8 or 16 bits per "
            f"pixel."
        ) from error
    except DECODER_ERRORS as error:
        raise _damaged(path, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Pillow's warnings and logs about odd files."""
    logger = logging.getLogger("PIL")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _damaged(path: Path, error: BaseException) -> DataError:
    if isinstance(error, OSError) and error.strerror is not None:  # the system's, not Pillow's
        return DataError(f"'{shown(path)}' cannot be read ({error.strerror}); fix that or remove it.")
    reason = shown(str(error) or type(error).__name__)
    return DataError(f"The image '{shown(path)}' is damaged or truncated ({reason}); replace or remove it.")


def _check_file(path: Path) -> None:
    """Check the file before opening it: opening a pipe would block for ever."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"'{shown(path)}' is not a regular file; remove it.")
    if status.st_size == 0:
        raise DataError(f"The image '{shown(path)}' is empty (0 bytes); replace or remove it.")


def _orientation(image: Image.Image, *, decoded: bool) -> int:
    """Return the Exif orientation, 1 to 8; 1 (upright) if there is none or it cannot be read."""
    if not decoded and image.format == "PNG" and "exif" not in image.info:
        return 1  # Pillow would decode the image to search for it after the pixels
    try:
        value = image.getexif().get(ORIENTATION, 1)
    except DECODER_ERRORS:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _is_grey(image: Image.Image) -> bool:
    if image.mode in GREY_MODES:
        return True
    if image.mode not in ("P", "PA") or image.palette is None:
        return False
    # Not with getpalette(), which decodes the image first. An entry has three colours and possibly a fourth byte.
    raw, entry = bytes(image.palette.palette), len(image.palette.rawmode or image.palette.mode)
    colours = np.frombuffer(raw, dtype=np.uint8)[: len(raw) // entry * entry].reshape(-1, entry)[:, :3]
    return entry in (3, 4) and bool((colours == colours[:, :1]).all())


def _opaque(image: Image.Image, mode: str) -> Image.Image:
    if image.mode == mode and not image.has_transparency_data:
        return image
    if image.mode in SIXTEEN_BIT_MODES:
        return _eight_bit(image).convert(mode)
    if image.mode in ("F", "LAB"):
        raise _UnusableError("floating-point numbers" if image.mode == "F" else "CIELAB colours")
    if image.has_transparency_data:
        return _on_white(image, mode)
    return image.convert("RGB").convert(mode)


def _on_white(image: Image.Image, mode: str) -> Image.Image:
    result = Image.new(mode, image.size)
    for top, bottom in _strips(image):
        box = (0, top, image.width, bottom)
        strip = image.crop(box).convert("RGBA")
        result.paste(Image.alpha_composite(Image.new("RGBA", strip.size, "white"), strip).convert(mode), box)
    return result


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; Pillow's own conversion would clip it."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise _UnusableError("outside of 0..65535")
    result = np.empty(values.shape, dtype=np.uint8)
    for top, bottom in _strips(image):
        result[top:bottom] = (values[top:bottom].astype(np.uint32) + 128) // 257
    return Image.fromarray(result)


def _strips(image: Image.Image) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows: several copies of the largest images in wider numbers would take a gigabyte."""
    step = max(1, STRIP // image.width)
    for top in range(0, image.height, step):
        yield top, min(top + step, image.height)
