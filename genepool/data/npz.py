"""Images and labels from a `.npz` file, under their usual names. Pickled objects are refused."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genepool.data.arrays import ArraySource
from genepool.data.free_memory import check_room
from genepool.data.paths import stamp
from genepool.data.source import Development, Images
from genepool.errors import DataError, shown

PAIRS = (("x_train", "y_train"), ("x", "y"), ("images", "labels"))
"""The training part is the first of these pairs in the file."""
VALIDATION_PAIR = ("x_val", "y_val")
TEST_PAIR = ("x_test", "y_test")
LARGE, TIGHTEST = 2**28, 100
"""A file may unpack to LARGE bytes, or to TIGHTEST times its size: real images are not that compressible, but a zip
bomb is."""
COPIES = 2
"""Copies of the arrays in memory at a time: as in the file, and split."""
READ_ERRORS = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError,
    ValueError, struct.error, zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile,
)  # fmt: skip

Pair = tuple[NDArray[Any], NDArray[Any]]


class NpzSource:
    """The arrays of a `.npz` file, read when first needed."""

    def __init__(self, path: Path, *, flip: bool = True) -> None:
        self.path = path
        self.name = shown(path.stem)
        self.flip = flip
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
        return self._pair(archive, train), self._optional(archive, VALIDATION_PAIR), self._optional(archive, TEST_PAIR)

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
