"""Official files of a data set, loose (plain or .gz) or in their tar archive, and their binary layouts.

Nothing is unpacked to disk: members are read from an archive by their known names, up to their known sizes.
"""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genepool.data.source import Images
from genepool.errors import DataError, shown

SizeOf = Callable[[str], int]
READ_ERRORS = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)


class OfficialFile(NamedTuple):
    name: str
    where: str  # its path for messages
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseFiles:
    """Individual files in a folder, each plain or compressed."""

    place: Path
    paths: Mapping[str, Path]

    def files(self) -> list[Path]:
        return list(self.paths.values())

    def read(self, names: Sequence[str], size_of: SizeOf) -> list[OfficialFile]:
        paths = [(name, self.paths[name]) for name in names]
        return [OfficialFile(name, shown(path), self._read_one(path, size_of(name))) for name, path in paths]

    def _read_one(self, path: Path, size: int) -> bytes:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
                return _exactly(stream, size, shown(path))
        except READ_ERRORS as error:
            raise _unreadable(path, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TarFile:
    """The official archive, with the only folder inside."""

    place: Path
    folder: str

    def files(self) -> list[Path]:
        return [self.place]

    def read(self, names: Sequence[str], size_of: SizeOf) -> list[OfficialFile]:
        wanted = {PurePosixPath(self.folder, name): name for name in names}
        found: dict[str, bytes] = {}
        try:
            with tarfile.open(self.place, mode="r|*") as archive:
                for member in archive:
                    name = wanted.pop(PurePosixPath(member.name), None)
                    stream = archive.extractfile(member) if name is not None and member.isreg() else None
                    if name is not None and stream is not None:
                        found[name] = _exactly(stream, size_of(name), self._label(name))
                    if not wanted:
                        break
        except READ_ERRORS as error:
            raise _unreadable(self.place, error) from error
        for name in names:
            if name not in found:
                raise DataError(f"The archive '{shown(self.place)}' has no '{self.folder}/{name}'; download it again.")
        return [OfficialFile(name, self._label(name), found[name]) for name in names]

    def _label(self, name: str) -> str:
        return f"{shown(self.place)}:{self.folder}/{name}"


OfficialFiles = LooseFiles | TarFile


def _exactly(stream: io.BufferedIOBase | IO[bytes], size: int, label: str) -> bytes:
    content = stream.read(size + 1)
    if len(content) != size:
        raise DataError(
            f"'{label}' has {'more than ' if len(content) > size else ''}{min(len(content), size):,} bytes instead of "
            f"{size:,}: it is {'not the official file' if len(content) > size else 'truncated'}; download it again."
        )
    return content


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"'{shown(path)}' cannot be read ({shown(str(error))}): it is damaged or not the official file; download it "
        f"again."
    )


def find_official(
    root: Path, *, folders: Sequence[str], names: Sequence[str], archive: tuple[str, str] | None
) -> OfficialFiles | None:
    """Find the files below that root, or in it if it is named like a folder. `archive`: the tar file and the folder
    inside."""
    places = [root / folder for folder in folders] + [root] * (root.resolve().name in folders)
    for place in places:
        if (loose := _loose(place, names)) is not None:
            return loose
    if archive is not None:
        for place in [root, *places]:
            if (place / archive[0]).is_file():
                return TarFile(place=place / archive[0], folder=archive[1])
    return None


def _loose(place: Path, names: Sequence[str]) -> LooseFiles | None:
    """Return None if none of the files is there; if only some are, raise an error that names a missing one."""
    # If both are there, the plain one wins: it comes second.
    paths = {name: path for name in names for path in (place / f"{name}.gz", place / name) if path.is_file()}
    missing = [name for name in names if name not in paths]
    if paths and missing:
        raise DataError(f"The folder '{shown(place)}' lacks the file '{missing[0]}'; put it next to the others.")
    return None if missing else LooseFiles(place=place, paths=paths)


SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class CifarLayout:
    """The files of both parts: records of label bytes (the coarse label before the fine one) and 3,072 pixel bytes, the
    red plane of 32 rows of 32 pixels, then green, then blue."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    train_records: int  # records per training file
    test_records: int = 10_000
    label_bytes: int  # the last of these bytes is the label
    classes: int

    def size_of(self, name: str) -> int:
        records = self.train_records if name in self.train else self.test_records
        return records * (self.label_bytes + PIXEL_BYTES)

    def decode(self, files: Sequence[OfficialFile]) -> Images:
        length = self.label_bytes + PIXEL_BYTES
        counts = [len(file.content) // length for file in files]
        pixels = np.empty((sum(counts), SIDE, SIDE, 3), dtype=np.uint8)
        labels = np.empty(sum(counts), dtype=np.int64)
        start = 0
        for file, count in zip(files, counts, strict=True):
            records = np.frombuffer(file.content, dtype=np.uint8).reshape(count, length)
            labels[start : start + count] = records[:, self.label_bytes - 1]
            _check_labels(labels[start : start + count], self.classes, "Record {} of '{}' has the label {}", file.where)
            planes = records[:, self.label_bytes :].reshape(count, 3, SIDE, SIDE)  # (images, channels, height, width)
            pixels[start : start + count] = planes.transpose(0, 2, 3, 1)
            start += count
        return Images(pixels=pixels, labels=labels)


def _check_labels(labels: NDArray[np.int64], classes: int, fault: str, where: str) -> None:
    wrong = np.flatnonzero(labels >= classes)
    if len(wrong):
        found = fault.format(wrong[0], where, labels[wrong[0]])
        raise DataError(f"{found}, but there are only {classes} classes: the file is damaged; download it again.")


IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049


@dataclass(frozen=True, slots=True, kw_only=True)
class IdxLayout:
    """A file with images and one with labels for each part: big-endian numbers of four bytes (a magic number and the
    length of each dimension), then one byte per pixel or label."""

    train_images: int = 60_000
    test_images: int = 10_000
    side: int = 28
    classes: int = 10
    train: tuple[str, ...] = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    test: tuple[str, ...] = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

    def _header(self, name: str) -> tuple[int, ...]:
        count = self.train_images if name in self.train else self.test_images
        return (IMAGES_MAGIC, count, self.side, self.side) if "images" in name else (LABELS_MAGIC, count)

    def size_of(self, name: str) -> int:
        header = self._header(name)
        return 4 * len(header) + int(np.prod(header[1:]))

    def decode(self, files: Sequence[OfficialFile]) -> Images:
        for file in files:
            self._check_header(file)
        pictures, names = files
        pixels = np.frombuffer(pictures.content, dtype=np.uint8, offset=16).reshape(-1, self.side, self.side, 1)
        labels = np.frombuffer(names.content, dtype=np.uint8, offset=8).astype(np.int64)
        _check_labels(labels, self.classes, "Label {} of '{}' is {}", names.where)
        return Images(pixels=pixels, labels=labels)

    def _check_header(self, file: OfficialFile) -> None:
        expected = self._header(file.name)
        found = struct.unpack_from(f">{len(expected)}I", file.content)
        if found != expected:
            raise DataError(
                f"'{file.where}' starts with the numbers {found} instead of {expected}: it is not the idx file "
                f"'{file.name}'; download it again."
            )
