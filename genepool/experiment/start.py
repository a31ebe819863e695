"""What an experiment begins with, where that is not the trivial network: a DNA, perhaps with the weights of a model.

It lies in the experiment's directory, so that every worker finds it; the fixed setting `start` names it and binds it:

    <experiment>/start/
      dna.json, weights.safetensors     the first individuals; the weights only where there are some

Differs from the paper: its experiments begin with nothing, and so do all presets.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from genepool.data import write_atomic
from genepool.dna import DNA, ZOO, Shape, codec, zoo
from genepool.errors import DataError, StorageError, shown

if TYPE_CHECKING:
    from genepool.data import Dataset

FOLDER = "start"


class Start(NamedTuple):
    """A network to evolve on from."""

    origin: str
    """Where it comes from, for people."""
    dna: DNA
    weights: bytes | None = None
    image: Shape | None = None
    classes: tuple[str, ...] = ()
    """What the weights were trained on."""

    @property
    def setting(self) -> str:
        """The value of the setting `start`: the origin, and a digest of everything that is inherited."""
        return f"{self.origin} {_digest(codec.encode(self.dna).encode(), self.weights)}"


def find_start(text: str, channels: int) -> Start:
    """From a network's name in the zoo, a file of DNA, or an exported model; nothing in a file is run."""
    if text in ZOO:
        return Start(text, zoo(text, channels))
    path = Path(text)
    if path.suffix == ".json":
        return Start(shown(path.name), codec.read(path))
    if os.path.exists(path / "experiment.json"):  # noqa: PTH110 - pathlib's raises on names that are too long
        raise DataError(
            f"'{shown(path)}' is an experiment; take its best out with `genepool export` and start from that."
        )
    if not os.path.lexists(path):
        raise DataError(
            f"There is no '{shown(text)}' to start from; give an exported model, a .json file of DNA, or one of "
            f"{', '.join(ZOO)}."
        )
    return from_model(path)


def from_model(path: Path, member: int | None = None) -> Start:
    """The DNA and weights in an exported model, or in one network of an ensemble, once they answer like the model."""
    from genepool.export import inheritable, read_model

    facts, network = read_model(path)
    count = len(facts.members)
    if member is None and count > 1:
        raise DataError(
            f"'{shown(path)}' is an ensemble of {count} networks; take one out with `genepool import --member`."
        )
    chosen = member or 1
    if not 1 <= chosen <= count:
        raise DataError(f"'{shown(path)}' has no network {chosen}; its networks are numbered from 1 to {count}.")
    try:
        weights = inheritable(facts, network, chosen - 1)
    except DataError as error:
        raise DataError(f"The model '{shown(path)}' cannot be used: {error}") from None
    return Start(shown(path.name), facts.members[chosen - 1].decoded(), weights, facts.image, facts.classes)


def require_fit(start: Start, data: Dataset) -> None:
    """Weights belong to one size of images and to certain classes; a DNA alone fits all."""
    if start.weights is None or (start.image, start.classes) == (data.image, data.classes):
        return
    here, there = _kind(data.image, data.classes), _kind(start.image, start.classes)
    raise DataError(
        f"'{shown(start.origin)}' was trained on {there}, but '{shown(data.name)}' has {here}; to start from its "
        "architecture alone, take the DNA out with `genepool import` and give that."
    )


def _kind(image: Shape | None, classes: tuple[str, ...]) -> str:
    names = shown(", ".join(classes[:3])) + (", ..." if len(classes) > 3 else "")
    return f"{'x'.join(map(str, image or ()))} images of {len(classes)} classes ({names})"


def keep(start: Start, directory: Path) -> None:
    """Puts it into the experiment, each file whole."""
    files = {"dna.json": codec.encode(start.dna).encode(), "weights.safetensors": start.weights}
    try:
        (directory / FOLDER).mkdir(exist_ok=True)
        for name, data in files.items():
            if data is not None:
                write_atomic(directory / FOLDER / name, data)
    except OSError as error:
        raise StorageError(f"What to start from cannot be kept in '{shown(directory)}': {error.strerror}.") from None


def recall(setting: str, directory: Path) -> Start:
    """What the setting names, if it is still what it was."""
    folder = directory / FOLDER
    try:
        text = (folder / "dna.json").read_bytes()
        path = folder / "weights.safetensors"
        weights = path.read_bytes() if path.exists() else None
    except OSError as error:
        raise DataError(
            f"What this experiment starts from cannot be read in '{shown(folder)}' ({error.strerror}); repeat "
            "`genepool run` with its --start."
        ) from None
    origin, _, digest = setting.rpartition(" ")
    if _digest(text, weights) != digest:
        raise DataError(f"The files in '{shown(folder)}' are not what this experiment started from; restore them.")
    return Start(origin, codec.decode(text), weights)


def _digest(dna: bytes, weights: bytes | None) -> str:
    digest = hashlib.sha256(dna)
    digest.update(weights or b"")
    return digest.hexdigest()[:20]
