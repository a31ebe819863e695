"""The images of an experiment: recorded by the first process that prepares them, and compared ever after.

Without the record, a renamed class folder would silently change what the outputs of all networks mean, and added or
deleted images would move others between training, validation and test.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from genepool.data import Dataset, FolderSource, Source, original, prepare, save_file
from genepool.dna import Shape
from genepool.errors import DataError, StorageError, shown
from genepool.population import Files, publish

FILE = "images.json"
LARGEST = 1 << 28  # bytes of the record
MOST_FILES = 200_000  # files that are listed by name; a digest represents more
EXAMPLES = 3  # names in a message
NOISE = 64  # images of noise


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment knows of its images. Models are used by it alone, without the images."""

    name: str
    classes: tuple[str, ...]
    height: int
    width: int
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train: int  # images for training
    validation: int
    digest: str  # of all labels, and of the names and sizes of the files of a folder
    files: tuple[str, ...] = ()  # path in the folder and size of each file, of a folder that is not too large

    @property
    def image(self) -> Shape:
        return Shape(self.height, self.width, self.channels)

    @classmethod
    def of(cls, source: Source, data: Dataset) -> ImageRecord:
        folder = original(source)
        files = folder.listing() if isinstance(folder, FolderSource) else ()
        digest = hashlib.sha256(data.train_labels.tobytes() + data.validation_labels.tobytes())
        digest.update("\n".join(files).encode())
        return cls(
            name=data.name,
            classes=data.classes,
            **data.image._asdict(),
            mean=data.mean,
            std=data.std,
            train=len(data.train_labels),
            validation=len(data.validation_labels),
            digest=digest.hexdigest(),
            files=files if len(files) <= MOST_FILES else (),
        )

    def noise(self) -> Dataset:
        """Images of noise without labels, which show whether two forms of a network give the same answers."""
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (NOISE, *self.image), dtype=np.uint8)
        none = np.empty(0, dtype=np.int64)
        return Dataset(
            name=self.name, classes=self.classes, **self.image._asdict(), pad=0, flip=False, mean=self.mean,
            std=self.std, train_pixels=pixels[:0], train_labels=none, validation_pixels=pixels, validation_labels=none,
        )  # fmt: skip

    def changes(self, now: ImageRecord) -> str:
        """What is different now, in words; empty if nothing is."""
        if self.classes != now.classes:
            return _changed("class", self.classes, now.classes) or "the classes are in another order"
        if self.digest != now.digest:
            return _changed("image", self.files, now.files) or "there are other images or labels"
        if self.image != now.image:
            return f"they are prepared as {_size(now)} instead of {_size(self)}"
        return ""


def _changed(noun: str, before: tuple[str, ...], now: tuple[str, ...]) -> str:
    gone, new = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    parts = [f"{_listed(noun, names)} {what}" for names, what in ((gone, "gone"), (new, "new")) if names]
    return " and ".join(parts)


def _listed(noun: str, names: list[str]) -> str:
    some = ", ".join(f"'{shown(name.rpartition(' ')[0] if noun == 'image' else name)}'" for name in names[:EXAMPLES])
    if len(names) == 1:
        return f"the {noun} {some} is"
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{len(names):,} {plural} ({some}{', ...' if len(names) > EXAMPLES else ''}) are"


def _size(record: ImageRecord) -> str:
    return f"{record.height}x{record.width}x{record.channels}"


def recorded(files: Files, path: Path) -> ImageRecord | None:
    """The images that the experiment was made with; None if none were ever prepared."""
    place = shown(path / FILE)
    try:
        return msgspec.json.decode(files.load(f"{path}/{FILE}", LARGEST), type=ImageRecord)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"'{place}' cannot be read: {error.strerror or error}.") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise DataError(f"'{place}' is damaged ({shown(str(error))}); restore it from a copy.") from None


def prepared(files: Files, path: Path, source: Source, *, accept: bool = False) -> Dataset:
    """Prepare the images and record them. If others were recorded, refuse them; `accept` takes them if the classes are
    the same."""
    data = prepare(source)
    now, known = ImageRecord.of(source, data), recorded(files, path)
    if known is None:
        with suppress(OSError):  # such as a read-only mount: the next process records them
            publish(files, str(path), FILE, msgspec.json.encode(now))
        known = recorded(files, path) or now
    if not (difference := known.changes(now)):
        return data
    place = shown(path)
    if known.classes != now.classes:
        raise DataError(f"The classes of '{place}' have changed: {difference}; restore them or start a new experiment.")
    if not accept:
        raise DataError(
            f"The images of '{place}' have changed: {difference}; restore them or continue with --accept-images."
        )
    save_file(path / FILE, msgspec.json.encode(now), "record of the images")
    return data
