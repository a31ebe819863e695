"""A folder of images of any size, one sub-folder per class, brought to one size.

    flowers/                         flowers/
      rose/  a.png b.jpg ...           train/  rose/ ... tulip/ ...
      tulip/ c.png ...                 val/    rose/ ... tulip/ ...      (optional)
                                       test/   rose/ ... tulip/ ...      (optional)

Files beside the class folders are ignored and listed. In them, hidden files and desktop litter are ignored; everything
else must be an image.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from genepool.data.free_memory import check_room
from genepool.data.image_files import read_header, read_pixels
from genepool.data.source import Development, Images
from genepool.data.splits import held_out_mask
from genepool.errors import DataError, SettingsError, shown

PARTS = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
MOST_NAMED = 5  # names of ignored files in a remark
DESKTOP_LITTER = ("thumbs.db", "desktop.ini", "__macosx")


class ImageFile(NamedTuple):
    path: Path
    label: int
    size: int
    changed: int  # modification time in nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    classes: tuple[str, ...]
    train: tuple[ImageFile, ...]
    validation: tuple[ImageFile, ...] = ()
    test: tuple[ImageFile, ...] = ()
    ignored: tuple[str, ...] = ()
    """The files beside the class folders, such as a README."""


def read_tree(root: Path) -> Tree:
    """List the classes and files; refuse a folder that cannot be split into training, validation and test."""
    ignored: list[str] = []
    folders = _folders(root, ignored)
    seen: set[tuple[int, int]] = set()
    parts = {"train": folders}
    if _in_parts(folders):
        parts = {PARTS[folder.name.lower()]: _folders(folder, ignored) for folder in folders}
    names = [folder.name for folder in parts["train"]]
    if len(names) < 2:
        found = f"only the class folder '{shown(names[0])}'" if names else "no class folders"
        raise DataError(f"'{shown(root)}' has {found}; it needs one sub-folder for each of at least two classes.")
    files = {part: _files(folders, names, seen) for part, folders in parts.items()}
    tree = Tree(classes=tuple(shown(name) for name in names), ignored=tuple(ignored), **files)
    _check_splittable(root, tree)
    return tree


def _in_parts(folders: list[Path]) -> bool:
    """Return whether the folders are train, val and test; all must match, since a class may be called 'train' too."""
    names = [PARTS.get(folder.name.lower()) for folder in folders]
    if None in names or names.count("train") != 1 or len(set(names)) != len(names):
        return False
    return all(any(map(_is_folder, _entries(folder))) for folder in folders)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            kept = [e for e in entries if not e.name.startswith(".") and e.name.lower() not in DESKTOP_LITTER]
    except (OSError, ValueError) as error:
        raise DataError(f"The folder '{shown(folder)}' cannot be read ({shown(str(error))}).") from error
    return sorted(kept, key=lambda entry: os.fsencode(entry.name))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _folders(root: Path, ignored: list[str]) -> list[Path]:
    """List the folders directly below, and add the files there to those that are ignored."""
    entries = _entries(root)
    ignored += [shown(entry.name) for entry in entries if not _is_folder(entry)]
    return [Path(entry.path) for entry in entries if _is_folder(entry)]


def _files(folders: list[Path], names: list[str], seen: set[tuple[int, int]]) -> tuple[ImageFile, ...]:
    found: list[ImageFile] = []
    for folder in folders:
        if folder.name not in names:
            raise DataError(f"The class folder '{shown(folder)}' has no counterpart in 'train'; rename or remove it.")
        if not (files := list(_below(folder, names.index(folder.name), seen))):
            raise DataError(f"The class folder '{shown(folder)}' contains no images; fill or remove it.")
        found += files
    return tuple(found)


def _below(folder: Path, label: int, seen: set[tuple[int, int]]) -> Iterator[ImageFile]:
    """Yield the files of a class. No folder is read twice: linked into two classes or parts, its images would leak."""
    status = _status(folder)
    if (status.st_dev, status.st_ino) in seen:
        raise DataError(f"The folder '{shown(folder)}' is a link to a folder that is already read; remove the link.")
    seen.add((status.st_dev, status.st_ino))
    for entry in _entries(folder):
        path = Path(entry.path)
        status = _status(path)
        if stat.S_ISDIR(status.st_mode):
            raise DataError(
                f"'{shown(path)}' is a folder inside a class folder; there must be one folder of images per class, "
                f"optionally sorted into 'train', 'val' and 'test'."
            )
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"'{shown(path)}' is neither a file nor a folder; remove it.")
        yield ImageFile(path, label, status.st_size, status.st_mtime_ns)


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except (OSError, ValueError) as error:
        raise DataError(f"'{shown(path)}' cannot be read ({shown(str(error))}); remove it.") from error


def _check_splittable(root: Path, tree: Tree) -> None:
    needed = 1 + (not tree.validation) + (not tree.test)
    counts = np.bincount([file.label for file in tree.train], minlength=len(tree.classes))
    for name, count in zip(tree.classes, counts.tolist(), strict=True):
        if count < needed:
            raise DataError(
                f"The class '{name}' of '{shown(root)}' has {count} image{'s' * (count != 1)}, but at least {needed} "
                f"are needed to split it into training, validation and test; add some or remove the class."
            )


LARGEST_SIDE = 1024  # largest size that may be set
LARGEST_MEDIAN_SIDE = 256  # side that photographs are scaled down to if no size is given

Frame = tuple[int, int, int]  # height, width and channels of every image


class FolderSource:
    """A folder of images. The list of files is read on opening, the images when needed. By default, size (the median
    height and width) and channels (grey if all are) follow the development images only."""

    def __init__(
        self, path: Path, *, size: tuple[int, int] | None = None, channels: int | None = None, flip: bool = True
    ) -> None:
        if size is not None and not all(1 <= side <= LARGEST_SIDE for side in size):
            raise SettingsError(f"The image size {size[0]}x{size[1]} is not between 1 and {LARGEST_SIDE} pixels.")
        self.name, self.flip = shown(path.resolve().name) or "images", flip
        self._path, self._size, self._channels, self._tree = path, size, channels, read_tree(path)
        self.classes = self._tree.classes

    @property
    def remark(self) -> str:
        """What a user should know about the folder, in one line; empty if there is nothing to say."""
        if not (names := self._tree.ignored):
            return ""
        listed = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        return f"Ignored {len(names):,} file{'s' * (len(names) > 1)} beside the class folders: {listed}."

    def fingerprint(self) -> str:
        wanted = f"{self._size}" if self._channels is None else f"{self._size} {self._channels}"
        digest = hashlib.sha256(f"{shown(self._path.resolve())} {wanted}".encode())
        for file in (*self._tree.train, *self._tree.validation, *self._tree.test):
            name = shown(file.path.relative_to(self._path))
            digest.update(f"\n{name} {file.label} {file.size} {file.changed}".encode())
        return digest.hexdigest()

    def listing(self) -> tuple[str, ...]:
        """Return the path in the folder and the size of each file, in a fixed order."""
        files = (*self._tree.train, *self._tree.validation, *self._tree.test)
        return tuple(sorted(f"{shown(file.path.relative_to(self._path))} {file.size}" for file in files))

    def development(self) -> Development:
        """Test images are decoded too, and discarded: a damaged one should stop a run at its start."""
        train, test = self._split
        files = (*train, *self._tree.validation)
        height, width, channels = self.frame
        images = _decode(files, self.frame)
        for file in test:
            read_header(file.path)
            read_pixels(file.path, height=height, width=width, channels=channels)
        mask = np.arange(len(files)) >= len(train) if self._tree.validation else None
        return Development(images=images, validation=mask)

    def held_out(self) -> Images:
        return _decode(self._split[1], self.frame)

    @cached_property
    def _split(self) -> tuple[Sequence[ImageFile], Sequence[ImageFile]]:
        """The files for training (and validation, unless it has its own folder) and the test files."""
        train = self._tree.train
        if self._tree.test:
            return train, self._tree.test
        held_out = held_out_mask(np.array([file.label for file in train], dtype=np.int64))
        return list(compress(train, ~held_out)), list(compress(train, held_out))

    @cached_property
    def frame(self) -> Frame:
        """The height, width and channels that all images are brought to."""
        headers = [read_header(file.path) for file in (*self._split[0], *self._tree.validation)]
        channels = self._channels or (1 if all(header.grey for header in headers) else 3)
        if self._size is not None:
            return (*self._size, channels)
        height = float(np.median([header.height for header in headers]))
        width = float(np.median([header.width for header in headers]))
        shrink = min(1.0, LARGEST_MEDIAN_SIDE / max(height, width))
        return max(1, round(height * shrink)), max(1, round(width * shrink)), channels


def _decode(files: Sequence[ImageFile], frame: Frame) -> Images:
    """Decode one image at a time directly into the array, which limits the memory to that of the result."""
    height, width, channels = frame
    what, advice = f"{len(files)} images of {height}x{width}", "choose a smaller size (--size)"
    check_room(len(files) * math.prod(frame), what, advice)
    try:
        pixels = np.empty((len(files), *frame), dtype=np.uint8)
    except (MemoryError, ValueError) as error:
        raise DataError(f"{what} do not fit into memory; {advice}.") from error
    for row, file in enumerate(files):
        pixels[row] = read_pixels(file.path, height=height, width=width, channels=channels)
    return Images(pixels=pixels, labels=np.array([file.label for file in files], dtype=np.int64))
