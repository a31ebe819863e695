"""The network that an experiment starts from, if it is not the trivial one: a DNA, possibly with weights.

It is stored in `<experiment>/start/` (dna.json, and weights.safetensors if there are weights) for all workers; the
fixed setting `experiment.start` contains its digest. Differs from the paper, which starts from the trivial network.
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
    from genepool.export import ForeignModel

FOLDER = "start"


class Start(NamedTuple):
    origin: str  # for people to read
    dna: DNA
    weights: bytes | None = None
    image: Shape | None = None  # the shape of the images that the weights were trained on
    classes: tuple[str, ...] = ()  # their classes; empty if the file does not name them
    outputs: int = 0  # the number of classes
    mean: tuple[float, ...] | None = None  # what their channels are normalised by, on the scale 0..1
    std: tuple[float, ...] | None = None

    @property
    def setting(self) -> str:
        """The value of the setting: the origin, and a digest of everything that is inherited."""
        return f"{self.origin} {_digest(codec.encode(self.dna).encode(), self.weights)}"


def find_start(text: str, channels: int = 3) -> Start:
    """Find a network by its name in the zoo, in a file of DNA, in an exported model or in a file of another program;
    nothing in a file is run. `channels` is needed for the zoo."""
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
            f"There is no '{shown(text)}' to start from; give a model, a .json file of DNA, or one of {', '.join(ZOO)}."
        )
    return from_file(path)


def from_file(path: Path) -> Start:
    """Read an exported model or a network from elsewhere."""
    from genepool.export import is_foreign, read_foreign

    return _from_foreign(path, read_foreign(path)) if is_foreign(path) else from_model(path)


def _from_foreign(path: Path, model: ForeignModel) -> Start:
    from genepool.nn import to_bytes

    return Start(
        shown(path.name),
        model.dna,
        to_bytes(model.tensors),
        model.image,
        outputs=model.classes,
        mean=model.mean,
        std=model.std,
    )


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
    return Start(
        shown(path.name),
        facts.members[chosen - 1].decoded(),
        weights,
        facts.image,
        facts.classes,
        len(facts.classes),
        facts.mean,
        facts.std,
    )


def keep(start: Start, directory: Path) -> None:
    try:
        (directory / FOLDER).mkdir(exist_ok=True)
        write_atomic(directory / FOLDER / "dna.json", codec.encode(start.dna).encode())
        if start.weights is not None:
            write_atomic(directory / FOLDER / "weights.safetensors", start.weights)
    except OSError as error:
        raise StorageError(f"The start network cannot be kept in '{shown(directory)}': {error.strerror}.") from None


def recall(setting: str, directory: Path) -> Start:
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
