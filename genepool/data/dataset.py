"""The data that training reads: a source's images, split, measured, padded and stored as memory-mapped files. A
prepared data set is a folder `<cache>/prepared/<name>-<key>/` of .npy files (see `_Meta.arrays`) and a `meta.json`,
which is written last. It is built under a temporary name and renamed, so that it is complete or absent.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import math
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

from genepool.data.files import cache_folder
from genepool.data.free_memory import at_a_time
from genepool.data.source import AdaptedSource, Development, Images, Source
from genepool.data.splits import channel_moments, proportional_order, stratified_split
from genepool.dna import Shape
from genepool.errors import DataError, shown

FORMAT = 1  # version of the prepared files; another one causes them to be built again
ATTEMPTS = 5
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # errors of a rename to an existing target
SAMPLE = 2048  # validation images whose pixels are part of a digest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """Images for training and validation. Each part is in random order, and every prefix of it is a fair sample."""

    name: str
    classes: tuple[str, ...]
    height: int
    width: int
    channels: int
    pad: int  # pixels around each training image, for random crops
    flip: bool  # whether mirror images may be trained on
    mean: tuple[float, ...]  # of each channel of the training part, on the scale 0..1, unless the settings give it
    std: tuple[float, ...]
    train_pixels: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    validation_pixels: NDArray[np.uint8]
    validation_labels: NDArray[np.int64]

    @property
    def image(self) -> Shape:
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
        padded = (self.height + 2 * self.pad, self.width + 2 * self.pad, self.channels)
        return {
            "train_pixels": ((self.train, *padded), np.uint8),
            "train_labels": ((self.train,), np.int64),
            "validation_pixels": ((self.validation, self.height, self.width, self.channels), np.uint8),
            "validation_labels": ((self.validation,), np.int64),
        }


def prepare(source: Source, *, cache: Path | None = None, seed: int = 0, pad: int = 4) -> Dataset:
    """Return the data set of a source, built if it is not cached; the seed decides the order and the split."""
    root = (cache if cache is not None else cache_folder()) / "prepared"
    target = root / _folder_name(source, seed, pad)
    for _ in range(ATTEMPTS):  # another process may be replacing the same damaged folder
        if (dataset := _open(target)) is not None:
            return dataset
        development = source.development()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as temporary:
                built = Path(temporary) / "dataset"
                built.mkdir()
                _write(source, development, built, seed, pad)
                _publish(built, target, Path(temporary))
        except OSError as error:
            raise DataError(
                f"The prepared data cannot be written to '{shown(root)}' ({error.strerror or error}); free some space "
                f"or set GENEPOOL_CACHE to a writable folder."
            ) from error
    raise DataError(f"The prepared data in '{shown(target)}' keeps changing or vanishing; remove that folder.")


def data_digest(data: Dataset) -> str:
    """Return a digest of the images and their order: all labels, sizes and moments, and a sample of the pixels."""
    facts = {name: getattr(data, name) for name in Dataset.__slots__ if not isinstance(getattr(data, name), np.ndarray)}
    found = hashlib.sha256(msgspec.json.encode(facts, order="sorted"))
    found.update(data.train_labels.tobytes())
    found.update(data.validation_labels.tobytes())
    found.update(data.validation_pixels[:SAMPLE].tobytes())
    return found.hexdigest()


def portable(data: Dataset) -> Dataset:
    """Return a copy with plain arrays, which serialise without an intermediate copy."""
    names = ("train_pixels", "train_labels", "validation_pixels", "validation_labels")
    arrays: dict[str, Any] = {name: np.asarray(getattr(data, name)) for name in names}
    return dataclasses.replace(data, **arrays)


def _folder_name(source: Source, seed: int, pad: int) -> str:
    facts = (FORMAT, source.name, source.fingerprint(), source.flip, seed, pad)
    readable = "".join(letter if letter.isalnum() else "-" for letter in source.name.lower())[:40]
    return f"{readable}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:20]}"


def _open(folder: Path) -> Dataset | None:
    try:
        meta = msgspec.json.decode((folder / "meta.json").read_bytes(), type=_Meta)
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in meta.arrays()}
    except (OSError, ValueError, EOFError, msgspec.DecodeError):
        return None
    complete = all(
        isinstance(arrays[name], np.memmap) and arrays[name].shape == shape and arrays[name].dtype == kind
        for name, (shape, kind) in meta.arrays().items()
    )
    if not complete or meta.format != FORMAT:
        return None
    facts = {name: value for name, value in msgspec.structs.asdict(meta).items() if name in Dataset.__slots__}
    return Dataset(**facts, **arrays)


def _publish(built: Path, target: Path, temporary: Path) -> None:
    """Rename the folder to its target. If one is there already, it stays if complete and is moved away if not."""
    for attempt in range(ATTEMPTS):
        try:
            built.rename(target)
            return
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        if _open(target) is not None:
            return
        with suppress(FileNotFoundError):  # another process may have moved it first
            target.rename(temporary / f"damaged-{attempt}")


def _write(source: Source, development: Development, folder: Path, seed: int, pad: int) -> None:
    images = development.images
    train, validation = _split(development, seed)
    _check_classes(source, images.labels, images.labels[train])
    mean, std = channel_moments(images, train)
    if isinstance(source, AdaptedSource):
        mean, std = source.moments(mean, std)
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
    """Yield the images in parts, framed by the channel mean: normalisation turns it into zero (He et al., 2016)."""
    _, height, width, channels = images.pixels.shape
    shape = (height + 2 * pad, width + 2 * pad, channels)
    step = at_a_time(math.prod(shape))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        framed = np.full((len(part), *shape), border, dtype=np.uint8)
        framed[:, pad : pad + height, pad : pad + width] = images.pixels[part]
        yield framed


def _save(path: Path, shape: tuple[int, ...], kind: type[np.generic], parts: Iterator[NDArray[Any]]) -> None:
    """Write a .npy file with plain writes: on a full disk, these raise an error; a memory map would get a signal."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for part in parts:
            stream.write(np.ascontiguousarray(part).data)
        stream.flush()
        os.fsync(stream.fileno())
