"""The network that an experiment starts from, if it is not the trivial one: a DNA, possibly with weights.

It is stored in the experiment's directory for all workers; the fixed setting `experiment.start` contains its digest:

    <experiment>/start/
      dna.json, weights.safetensors     the first individuals; the weights are optional

Differs from the paper, whose experiments start from the trivial network, as all presets do.
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
    origin: str
    """For people to read."""
    dna: DNA
    weights: bytes | None = None
    image: Shape | None = None
    classes: tuple[str, ...] = ()
    """The classes that the weights were trained on."""

    @property
    def setting(self) -> str:
        """The value of the setting: the origin, and a digest of everything that is inherited."""
        return f"{self.origin} {_digest(codec.encode(self.dna).encode(), self.weights)}"


def find_start(text: str, channels: int) -> Start:
    """Find a network by its name in the zoo, in a file of DNA or in an exported model; nothing in a file is run."""
    if text in ZOO:
        return Start(text, zoo(text, channels))
    path = Path(text)
    if path.suffix == ".json":
        return Start(shown(path.name), codec.read(path))
    if os.path.exists(path / "experiment.json"):  # noqa: PTH110 - pathlib's raises on names that are too long
        raise DataError(
            f"'{shown(path)}' is an experiment; export its best network with `genepool export` and start from that."
        )
    if not os.path.lexists(path):
        raise DataError(
            f"There is no '{shown(text)}' to start from; give an exported model, a .json file of DNA, or one of "
            f"{', '.join(ZOO)}."
        )
    return from_model(path)


def from_model(path: Path, member: int | None = None) -> Start:
    """Read DNA and weights from an exported model or one of its networks, and check that they answer like it."""
    from genepool.export import inheritable, read_model

    facts, network = read_model(path)
    count, chosen, name = len(facts.members), member or 1, shown(path)
    if member is None and count > 1:
        raise DataError(f"'{name}' is an ensemble of {count} networks; take one out with `genepool import --member`.")
    if not 1 <= chosen <= count:
        raise DataError(f"'{name}' has no network {chosen}; its networks are numbered from 1 to {count}.")
    try:
        weights = inheritable(facts, network, chosen - 1)
    except DataError as error:
        raise DataError(f"The model '{name}' cannot be used: {error}") from None
    return Start(shown(path.name), facts.members[chosen - 1].decoded(), weights, facts.image, facts.classes)


def require_fit(start: Start, data: Dataset) -> None:
    """Check that weights fit the shape and classes of the images; a DNA alone fits all."""
    if start.weights is None or (start.image, start.classes) == (data.image, data.classes):
        return
    here, there = _kind(data.image, data.classes), _kind(start.image, start.classes)
    raise DataError(
        f"'{shown(start.origin)}' was trained on {there}, but '{shown(data.name)}' has {here}; to start from its "
        "architecture alone, extract the DNA with `genepool import` and give that."
    )


def _kind(image: Shape | None, classes: tuple[str, ...]) -> str:
    names = shown(", ".join(classes[:3])) + (", ..." if len(classes) > 3 else "")
    return f"{'x'.join(map(str, image or ()))} images of {len(classes)} classes ({names})"


def keep(start: Start, directory: Path) -> None:
    """Write the network into the experiment's directory."""
    try:
        (directory / FOLDER).mkdir(exist_ok=True)
        write_atomic(directory / FOLDER / "dna.json", codec.encode(start.dna).encode())
        if start.weights is not None:
            write_atomic(directory / FOLDER / "weights.safetensors", start.weights)
    except OSError as error:
        raise StorageError(f"The start network cannot be kept in '{shown(directory)}': {error.strerror}.") from None


def recall(setting: str, directory: Path) -> Start:
    """Read the network back and check that it has not changed."""
    folder = directory / FOLDER
    try:
        text = (folder / "dna.json").read_bytes()
        path = folder / "weights.safetensors"
        weights = path.read_bytes() if path.exists() else None
    except OSError as error:
        raise DataError(
            f"The start network of this experiment cannot be read in '{shown(folder)}' ({error.strerror}); repeat "
            "`genepool run` with the same --start."
        ) from None
    origin, _, digest = setting.rpartition(" ")
    if _digest(text, weights) != digest:
        place = shown(folder)
        raise DataError(f"The files in '{place}' are not the network that this experiment started from; restore them.")
    return Start(origin, codec.decode(text), weights)


def _digest(dna: bytes, weights: bytes | None) -> str:
    digest = hashlib.sha256(dna)
    digest.update(weights or b"")
    return digest.hexdigest()[:20]
