"""Images and labels from NumPy arrays and `.npz` files. Pickled objects are refused."""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genepool.data.files import stamp
from genepool.data.free_memory import check_room
from genepool.data.source import Development, Images
from genepool.data.splits import held_out_mask
from genepool.errors import DataError, shown


class ArraySource:
    """Arrays in memory: pixels as bytes or as floats in 0..1 or 0..255; labels as integers or strings. Images are (n,
    height, width) or (n, height, width, channels). A part that is not given is split off."""

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        test: tuple[ArrayLike, ArrayLike] | None = None,
        classes: Sequence[str] | None = None,
        name: str = "arrays",
        flip: bool = True,
    ) -> None:
        self.name, self.flip = name, flip
        pixels, raw_labels = _array(x, "x"), _labels(_array(y, "y"), "y")
        self._scale = _scale(pixels, "x")
        self._values = _class_values(raw_labels, classes)
        self.classes = tuple(classes) if classes is not None else tuple(str(value) for value in self._values)
        self._images = self._part(pixels, raw_labels, "x", "y")
        self._validation = self._optional(validation, "validation")
        self._test = self._optional(test, "test")
        self._check_class_sizes()

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=32)
        for part in filter(None, (self._images, self._validation, self._test)):
            digest.update(f"{part.pixels.shape}".encode())
            digest.update(np.ascontiguousarray(part.pixels).data)
            digest.update(part.labels.tobytes())
        return digest.hexdigest()

    def development(self) -> Development:
        images = self._images
        if self._test is None:
            images = images.take(~held_out_mask(images.labels))
        return Development(images=images) if self._validation is None else Development.joined(images, self._validation)

    def held_out(self) -> Images:
        return self._test if self._test is not None else self._images.take(held_out_mask(self._images.labels))

    def _optional(self, pair: tuple[ArrayLike, ArrayLike] | None, part: str) -> Images | None:
        if pair is None:
            return None
        x, y = f"the {part} images", f"the {part} labels"
        images = self._part(_array(pair[0], x), _labels(_array(pair[1], y), y), x, y)
        if images.pixels.shape[1:] != self._images.pixels.shape[1:]:
            raise DataError(
                f"An image of {x} has the shape {images.pixels.shape[1:]}, but one of x has "
                f"{self._images.pixels.shape[1:]}; give all parts the same size."
            )
        return images

    def _part(self, pixels: NDArray[Any], labels: NDArray[Any], x: str, y: str) -> Images:
        if len(pixels) != len(labels):
            raise DataError(f"{x} has {len(pixels)} images, but {y} has {len(labels)} labels; give one for each.")
        if (labels.dtype.kind == "U") != (self._values.dtype.kind == "U"):
            raise DataError(f"{y} must be of the same kind as the training labels: all text or all integers.")
        unknown = np.setdiff1d(labels, self._values)
        if len(unknown):
            raise DataError(f"{y} contains the label '{unknown[0]}', which does not occur in the training part.")
        known = np.searchsorted(self._values, labels).astype(np.int64)
        return Images(pixels=_bytes(_four_dimensional(pixels, x), self._scale, x), labels=known)

    def _check_class_sizes(self) -> None:
        counts = np.bincount(self._images.labels, minlength=len(self.classes))
        needed = 1 + (self._validation is None) + (self._test is None)
        for name, count in zip(self.classes, counts, strict=True):
            if count < needed:
                raise DataError(
                    f"The class '{name}' has {count} of the {needed} or more images that a split needs; add some."
                )


def pixel_scale(x: ArrayLike, what: str = "X") -> float:
    """Return the factor that brings pixels to 0..255: 255 for floats up to 1, else 1."""
    return _scale(_array(x, what), what)


def to_pixels(x: ArrayLike, scale: float, what: str = "X") -> NDArray[np.uint8]:
    """Return images as bytes (n, height, width, channels), with the scale of the training images."""
    return _bytes(_four_dimensional(_array(x, what), what), scale, what)


def plain_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels as integers or text, and the classes in the type that was given, in the same order."""
    if labels.dtype == object:
        kinds = {type(label) for label in labels.ravel().tolist()}
        if kinds not in ({int}, {str}, {float}, {bool}):
            raise DataError("Unknown label type: y contains Python objects; labels must be all integers or all text.")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise DataError("y contains NaN or infinity; labels must be integers or text.")
        if (labels != np.rint(labels)).any():
            raise DataError("Unknown label type: y is continuous; labels must be integers or text.")
        return labels.astype(np.int64), np.unique(labels)
    return labels, np.unique(labels)


def store_arrays(path: Path, pixels: NDArray[np.uint8], labels: NDArray[Any]) -> None:
    """Write a `.npz` file, or raise DataError if the one that is there has other arrays: fitness depends on them."""
    if path.exists():
        with np.load(path, allow_pickle=False) as there:
            if not np.array_equal(there["x"], pixels) or not np.array_equal(there["y"], labels):
                raise DataError(f"The experiment in '{shown(path.parent)}' has other images; choose another directory.")
        return
    temporary = path.with_name(f".{os.getpid()}.npz")
    np.savez(temporary, x=pixels, y=labels)
    temporary.replace(path)


def _array(values: ArrayLike, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise DataError(f"{what} is not an array ({error}); give every image the same shape.") from error
    if array.dtype.hasobject:
        raise DataError(f"{what} contains Python objects; give plain numbers or text.")
    if array.size == 0:
        raise DataError(f"{what} is empty.")
    return array


def _labels(labels: NDArray[Any], what: str) -> NDArray[Any]:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{what} must have one label per image, not the shape {labels.shape}.")
    if labels.dtype.kind not in "iubUS":
        raise DataError(f"{what} must be integers or text, not {labels.dtype}; convert it, e.g. with y.astype(int).")
    if labels.dtype.kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{what} contains bytes that are not UTF-8 text; give text or integers.") from error
    return labels


def _class_values(labels: NDArray[Any], classes: Sequence[str] | None) -> NDArray[Any]:
    """Return the sorted labels that occur; with named classes, their positions 0, 1, ..."""
    values = np.unique(labels)
    if len(values) < 2:
        raise DataError(
            f"There must be at least two classes, but y has {len(values)} class for {len(labels)} sample(s)."
        )
    if classes is None:
        return values
    if values.dtype.kind not in "iu" or values[0] < 0 or values[-1] >= len(classes):
        raise DataError(f"With {len(classes)} named classes, y must be integers from 0 to {len(classes) - 1}.")
    return np.arange(len(classes))


def _scale(pixels: NDArray[Any], what: str) -> float:
    _check_numbers(pixels, what)
    up_to_one = pixels.dtype.kind == "b" or (pixels.dtype.kind == "f" and float(pixels.max()) <= 1.0)
    return 255.0 if up_to_one else 1.0


def _check_numbers(pixels: NDArray[Any], what: str) -> None:
    if pixels.dtype.kind not in "iubf":
        raise DataError(f"{what} must be numbers, not {pixels.dtype}.")


def _four_dimensional(pixels: NDArray[Any], what: str) -> NDArray[Any]:
    if pixels.ndim == 3:
        pixels = pixels[..., np.newaxis]
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3):
        return pixels
    hint = "; move the channels to the end" if pixels.ndim == 4 and pixels.shape[1] in (1, 3) else ""
    raise DataError(
        f"{what} must have the shape (n, height, width) or (n, height, width, 1 or 3), not {pixels.shape}{hint}."
    )


def _bytes(pixels: NDArray[Any], scale: float, what: str) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    _check_numbers(pixels, what)
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise DataError(f"{what} contains pixels that are not finite numbers (NaN or infinity); replace them.")
    low, high = float(pixels.min()) * scale, float(pixels.max()) * scale
    if low < 0.0 or high > 255.0:
        limits = "0..1" if scale == 255.0 else "0..255"
        raise DataError(
            f"{what} contains pixels from {low / scale:g} to {high / scale:g}, outside of {limits}; scale them first."
        )
    result = np.empty(pixels.shape, dtype=np.uint8)
    for row, image in enumerate(pixels):  # one at a time: all of them as floats would take eight times the memory
        result[row] = np.rint(image * scale)
    return result


PAIRS = (("x_train", "y_train"), ("x", "y"), ("images", "labels"))
"""The training part is the first of these pairs in the file."""
LARGE, TIGHTEST = 2**28, 100
"""A file may unpack to LARGE bytes, or to TIGHTEST times its size: only zip bombs are more compressible."""
COPIES = 2  # copies of the arrays in memory at a time: as in the file, and split
READ_ERRORS = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError,
    ValueError, struct.error, zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile,
)  # fmt: skip

Pair = tuple[NDArray[Any], NDArray[Any]]


class NpzSource:
    """The arrays of a `.npz` file, read when first needed."""

    def __init__(self, path: Path, *, flip: bool = True) -> None:
        self.path, self.name, self.flip = path, shown(path.stem), flip
        if not path.is_file():
            raise DataError(f"There is no file '{shown(path)}'.")

    @property
    def classes(self) -> tuple[str, ...]:
        return self._arrays.classes

    def fingerprint(self) -> str:
        return hashlib.sha256(stamp(self.path).encode()).hexdigest()

    def development(self) -> Development:
        return self._arrays.development()

    def held_out(self) -> Images:
        return self._arrays.held_out()

    @cached_property
    def _arrays(self) -> ArraySource:
        train, validation, test = self._read()
        try:
            return ArraySource(*train, validation=validation, test=test, name=self.name, flip=self.flip)
        except DataError as error:
            raise DataError(f"'{shown(self.path)}' cannot be used: {error}") from error

    def _read(self) -> tuple[Pair, Pair | None, Pair | None]:
        try:
            with self.path.open("rb") as stream:
                return self._parts(np.load(stream, allow_pickle=False))
        except READ_ERRORS as error:
            raise self._unreadable(error) from error

    def _parts(self, archive: Any) -> tuple[Pair, Pair | None, Pair | None]:
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"'{shown(self.path)}' is a single array, not a .npz file; write it with numpy.savez.")
        self._check_size(archive)
        names = set(archive.files)
        train = next((pair for pair in PAIRS if names.issuperset(pair)), None)
        if train is None:
            found = ", ".join(sorted(shown(name) for name in names)) or "nothing"
            raise DataError(f"'{shown(self.path)}' contains {found}; it must contain x_train and y_train, or x and y.")
        validation, test = (self._optional(archive, names) for names in (("x_val", "y_val"), ("x_test", "y_test")))
        return self._pair(archive, train), validation, test

    def _check_size(self, archive: Any) -> None:
        """Check the sizes in the archive's directory; nothing has been unpacked yet, and no more than this will be."""
        members = archive.zip.infolist()
        total, packed = sum(member.file_size for member in members), sum(member.compress_size for member in members)
        if total > max(LARGE, TIGHTEST * packed):
            raise DataError(
                f"'{shown(self.path)}' would unpack to {total / 1e9:.1f} GB, over {TIGHTEST} times its own size, which "
                f"is implausible for images; write it again with numpy.savez."
            )
        check_room(COPIES * total, f"The arrays in '{shown(self.path)}'", "leave some out or make the images smaller")

    def _optional(self, archive: Any, names: tuple[str, str]) -> Pair | None:
        present = [name for name in names if name in archive.files]
        if len(present) == 1:
            missing = names[1 - names.index(present[0])]
            raise DataError(f"'{shown(self.path)}' contains {present[0]} but not {missing}; add it or remove both.")
        return self._pair(archive, names) if present else None

    def _pair(self, archive: Any, names: tuple[str, str]) -> Pair:
        return self._array(archive, names[0]), self._array(archive, names[1])

    def _array(self, archive: Any, name: str) -> NDArray[Any]:
        try:
            value = archive[name]
        except READ_ERRORS as error:
            raise self._unreadable(error, f", array {name},") from error
        if not isinstance(value, np.ndarray):
            raise DataError(f"'{name}' in '{shown(self.path)}' is not an array; write the file with numpy.savez.")
        return value

    def _unreadable(self, error: BaseException, where: str = "") -> DataError:
        if "pickle" in str(error) or "Object arrays" in str(error):
            return DataError(
                f"'{shown(self.path)}'{where} contains pickled objects, which could run any program when read; "
                f"save plain arrays of numbers (or text labels) instead."
            )
        reason = shown(str(error) or type(error).__name__)
        return DataError(f"'{shown(self.path)}'{where} is damaged or not a .npz file ({reason}); write it again.")
