"""What training reads: a source's images split, measured, padded and kept as memory-mapped files.

All workers of a machine map the same files, so the images are in memory once. A prepared data set is a folder:

    <cache>/prepared/<name>-<key>/
      meta.json                 names, sizes, channel means; written last
      train_pixels.npy          uint8 (n, height + 2 pad, width + 2 pad, channels), padded with the channel means
      train_labels.npy          int64 (n,)
      validation_pixels.npy     uint8 (m, height, width, channels)
      validation_labels.npy     int64 (m,)

It is built beside its place and renamed into it, so that it is whole or not there. It never holds a test image.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.data.free_memory import at_a_time
from genepool.data.paths import cache_folder
from genepool.data.source import Development, Images, Source
from genepool.data.splits import channel_moments, proportional_order, stratified_split
from genepool.dna.shapes import Shape
from genepool.errors import DataError, shown

FORMAT = 1
"""Of the prepared files; another number makes them anew."""
ATTEMPTS = 5
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
"""What the system says when something is in the place already."""
SAMPLE = 2048
"""Validation images whose pixels are in a digest."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """Images for training and validation. The order within each part is random, and fair in every beginning."""

    name: str
    classes: tuple[str, ...]
    height: int
    width: int
    channels: int
    pad: int
    """Pixels on each side of a training image, from which crops are taken."""
    flip: bool
    """Whether mirror images may be trained on."""
    mean: tuple[float, ...]
    """Of each channel of the training part, on the scale 0..1."""
    std: tuple[float, ...]
    train_pixels: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    validation_pixels: NDArray[np.uint8]
    validation_labels: NDArray[np.int64]

    @property
    def image(self) -> Shape:
        """The shape of an image as a network sees it."""
        return Shape(self.height, self.width, self.channels)


class _Meta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    name: str
    classes: tuple[str, ...]
    height: int
    width: int
    channels: int
    pad: int
    flip: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train: int
    validation: int

    def arrays(self) -> dict[str, tuple[tuple[int, ...], type[np.generic]]]:
        """Shape and type of each file."""
        padded = (self.height + 2 * self.pad, self.width + 2 * self.pad, self.channels)
        return {
            "train_pixels": ((self.train, *padded), np.uint8),
            "train_labels": ((self.train,), np.int64),
            "validation_pixels": ((self.validation, self.height, self.width, self.channels), np.uint8),
            "validation_labels": ((self.validation,), np.int64),
        }


def prepare(source: Source, *, cache: Path | None = None, seed: int = 0, pad: int = 4) -> Dataset:
    """The data set of a source, from the cache if it was prepared before, otherwise built and kept there.

    The seed chooses the validation part, where the source leaves that open, and the order of the images.
    """
    root = (cache if cache is not None else cache_folder()) / "prepared"
    target = root / _folder_name(source, seed, pad)
    for _ in range(ATTEMPTS):  # another process may be replacing the same damaged folder
        if (dataset := _open(target)) is not None:
            return dataset
        development = source.development()
        try:
            _build(source, development, target, seed, pad)
        except OSError as error:
            raise DataError(
                f"The prepared data cannot be written to '{shown(root)}' ({error.strerror or error}); free some space, "
                f"or set GENEPOOL_CACHE to a folder that can be written."
            ) from error
    raise DataError(f"The prepared data in '{shown(target)}' keeps changing or vanishing; remove that folder.")


def digest(data: Dataset) -> str:
    """A text that is the same for the same images in the same order: all labels, and the images' sizes and moments."""
    facts = {name: getattr(data, name) for name in Dataset.__slots__ if not isinstance(getattr(data, name), np.ndarray)}
    found = hashlib.sha256(msgspec.json.encode(facts, order="sorted"))
    found.update(data.train_labels.tobytes())
    found.update(data.validation_labels.tobytes())
    found.update(data.validation_pixels[:SAMPLE].tobytes())
    return found.hexdigest()


def portable(data: Dataset) -> Dataset:
    """The same with plain arrays, which travel to other machines without being copied into a text first."""
    return dataclasses.replace(
        data,
        train_pixels=np.asarray(data.train_pixels),
        train_labels=np.asarray(data.train_labels),
        validation_pixels=np.asarray(data.validation_pixels),
        validation_labels=np.asarray(data.validation_labels),
    )


def _folder_name(source: Source, seed: int, pad: int) -> str:
    facts = (FORMAT, source.name, source.fingerprint(), source.flip, seed, pad)
    readable = "".join(letter if letter.isalnum() else "-" for letter in source.name.lower())[:40]
    return f"{readable}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:20]}"


def _open(folder: Path) -> Dataset | None:
    """The prepared data set, or None when it is missing, half there or damaged."""
    try:
        meta = msgspec.json.decode((folder / "meta.json").read_bytes(), type=_Meta)
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in meta.arrays()}
    except (OSError, ValueError, EOFError, msgspec.DecodeError):
        return None
    whole = all(
        isinstance(arrays[name], np.memmap) and arrays[name].shape == shape and arrays[name].dtype == kind
        for name, (shape, kind) in meta.arrays().items()
    )
    if not whole or meta.format != FORMAT:
        return None
    facts = {name: value for name, value in msgspec.structs.asdict(meta).items() if name in Dataset.__slots__}
    return Dataset(**facts, **arrays)


def _build(source: Source, development: Development, target: Path, seed: int, pad: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as temporary:
        built = Path(temporary) / "whole"
        built.mkdir()
        _write(source, development, built, seed, pad)
        _publish(built, target, Path(temporary))


def _publish(built: Path, target: Path, temporary: Path) -> None:
    """Moves the folder into its place. One that is there already wins if it is whole, and is moved away if not."""
    for attempt in range(ATTEMPTS):
        try:
            built.rename(target)
            return
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        if _open(target) is not None:
            return
        with suppress(FileNotFoundError):  # somebody else may have moved it first
            target.rename(temporary / f"damaged-{attempt}")


def _write(source: Source, development: Development, folder: Path, seed: int, pad: int) -> None:
    images = development.images
    train, validation = _split(development, seed)
    _check_classes(source, images.labels, images.labels[train])
    mean, std = channel_moments(images, train)
    _, height, width, channels = images.pixels.shape
    meta = _Meta(
        format=FORMAT,
        name=source.name,
        classes=source.classes,
        height=height,
        width=width,
        channels=channels,
        pad=pad,
        flip=source.flip,
        mean=mean,
        std=std,
        train=len(train),
        validation=len(validation),
    )
    border = np.rint(np.array(mean) * 255).astype(np.uint8)
    contents = {
        "train_pixels": _padded(images, train, pad, border),
        "train_labels": iter([images.labels[train]]),
        "validation_pixels": _padded(images, validation, 0, border),
        "validation_labels": iter([images.labels[validation]]),
    }
    for name, (shape, kind) in meta.arrays().items():
        _save(folder / f"{name}.npy", shape, kind, contents[name])
    (folder / "meta.json").write_bytes(msgspec.json.encode(meta))


def _split(development: Development, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which images are for training and which for validation, each part in a fair random order."""
    rng = np.random.default_rng(seed)
    labels, mask = development.images.labels, development.validation
    if mask is None:
        mask = stratified_split(labels, development.validation_share, rng)
    train, validation = np.flatnonzero(~mask), np.flatnonzero(mask)
    return train[proportional_order(labels[train], rng)], validation[proportional_order(labels[validation], rng)]


def _check_classes(source: Source, labels: NDArray[np.int64], trained: NDArray[np.int64]) -> None:
    if labels.max() >= len(source.classes):
        raise DataError(f"'{source.name}' has the label {labels.max()}, but only {len(source.classes)} classes.")
    missing = np.setdiff1d(np.arange(len(source.classes)), trained)
    if len(missing):
        name = source.classes[missing[0]]
        raise DataError(f"The class '{name}' of '{source.name}' has no image to train on; add some.")


def _padded(images: Images, rows: NDArray[np.int64], pad: int, border: NDArray[np.uint8]) -> Iterator[NDArray[Any]]:
    """The images in that order, framed; a few at a time.

    The border is the channel mean, which normalisation turns into zero: He et al. (2016) subtract the mean before they
    pad with zeros.
    """
    _, height, width, channels = images.pixels.shape
    step = at_a_time((height + 2 * pad) * (width + 2 * pad) * channels)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        framed = np.empty((len(part), height + 2 * pad, width + 2 * pad, channels), dtype=np.uint8)
        framed[:] = border
        framed[:, pad : pad + height, pad : pad + width] = images.pixels[part]
        yield framed


def _save(path: Path, shape: tuple[int, ...], kind: type[np.generic], parts: Iterator[NDArray[Any]]) -> None:
    """A .npy file by ordinary writes: on a full disk they fail with an error, a memory map with a signal."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for part in parts:
            stream.write(np.ascontiguousarray(part).data)
        stream.flush()
        os.fsync(stream.fileno())
