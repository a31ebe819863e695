"""The network that an experiment starts from, if it is not the trivial one: a DNA, possibly with weights, which are
fitted to the images of the experiment.

It is stored in `<experiment>/start/` (dna.json, and weights.safetensors if there are weights) for all workers; the
fixed setting `experiment.start` contains its digest. Differs from the paper, which starts from the trivial network, and
whose networks all begin with random weights.

A network that was trained on other classes keeps everything but its classifier. The new one is zero: its scores are
then equal at first, and the other layers receive no gradient until it has learnt something from their features, so the
first steps cannot destroy them.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from genepool.data import Dataset, DataSettings, FolderSource, Source, original, prepare, write_atomic
from genepool.dna import DNA, ZOO, Capacity, Shape, capacity, codec, rates_label, zoo
from genepool.errors import DataError, MutationError, StorageError, shown
from genepool.evaluation import Limits
from genepool.mutations import pruned_to
from genepool.settings import Settings, changed

if TYPE_CHECKING:
    from genepool.export import ForeignModel

FOLDER = "start"
PRESET = "finetune"
"""The preset for networks that were trained on other classes, unless another one is given."""


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


def is_transfer(start: Start, classes: tuple[str, ...]) -> bool:
    """Whether the weights were trained on other classes, or on unknown ones."""
    return start.weights is not None and start.classes != classes


class Beginning(NamedTuple):
    settings: Settings
    start: Start
    note: str = ""
    """What was chosen for a network with weights."""


def beginning(
    text: str,
    settings_of: Callable[[str], Settings],
    source_of: Callable[[Settings], Source],
    first: Settings | None = None,
) -> Beginning:
    """Return the settings of an experiment and the network that it starts from, which `find_start` finds. `settings_of`
    makes the settings with the preset to use if none was given. An experiment that exists has settings, the `first` of
    which decided how its network was fitted; they are not changed."""
    settings = settings_of("laptop")
    if text in ZOO:
        return Beginning(settings, find_start(text, prepare(source_of(settings)).channels))
    found = find_start(text)
    if first is None:
        source = source_of(settings)
        if is_transfer(found, source.classes):
            settings = settings_of(PRESET)
        settings = changed(settings, _image_settings(found, settings, source))
    data = prepare(source_of(settings))
    start = fitted(found, data.image, data.classes, first or settings)
    return Beginning(settings, start, "" if found.weights is None else note(start, found, data, settings.data))


def _image_settings(start: Start, settings: Settings, source: Source) -> dict[str, Any]:
    """The settings of the images that the network needs and that were not given: its channels, its mean and std, and
    for a folder as many pixels as it was trained on, but not more than the images have."""
    data, image = settings.data, start.image
    changes: dict[str, Any] = {}
    if start.weights is None or image is None:
        return {}
    _require_channels(start, data.channels or image.channels)
    if data.channels is None:
        changes["data.channels"] = image.channels
    for name, numbers in (("mean", start.mean), ("std", start.std)):
        if getattr(data, name) is None and numbers is not None:
            changes[f"data.{name}"] = ",".join(f"{value:.12f}".rstrip("0").rstrip(".") for value in numbers)
    folder = original(source)
    if data.size is None and isinstance(folder, FolderSource):
        height, width, _ = folder.frame
        shrink = min(1.0, math.sqrt(image.height * image.width / (height * width)))
        changes["data.size"] = f"{max(1, round(height * shrink))}x{max(1, round(width * shrink))}"
    return changes


def _require_channels(start: Start, channels: int) -> None:
    if start.image is not None and start.image.channels != channels:
        own = {1: "grey", 3: "colour"}.get(start.image.channels, f"{start.image.channels}-channel")
        raise DataError(
            f"'{shown(start.origin)}' was trained on {own} images, but data.channels is {channels}; leave that out."
        )


def fitted(start: Start, image: Shape, classes: tuple[str, ...], settings: Settings) -> Start:
    """Return the start for these images: with their number of classes, the settings' learning rates if the classes are
    other ones, and within the settings' limits. A DNA alone fits all images."""
    if start.weights is None:
        return start
    _require_channels(start, image.channels)
    if is_transfer(start, classes):
        breeding = settings.breeding
        dna = replace(start.dna, learning_rate=breeding.learning_rate, body_rate=breeding.body_rate)
        start = start._replace(dna=dna)
        if start.classes or start.outputs != len(classes):
            start = _with_new_classifier(start, len(classes))
    return _within_limits(start, image, len(classes), settings.limits)


def _with_new_classifier(start: Start, classes: int) -> Start:
    from genepool.nn import with_zero_classifier

    weights = with_zero_classifier(start.weights or b"", start.dna.output, classes)
    return start._replace(weights=weights, outputs=classes)


def _within_limits(start: Start, image: Shape, classes: int, limits: Limits) -> Start:
    """Prune a network that exceeds a limit: it would not be trained, and few of its children would be smaller. The
    weights stay as they are; inheriting them chooses the channels to keep. A network that exceeds only
    `limits.milliseconds` is trained, and its children are smaller (see Reproduction).
    """

    if (fault := limits.fault(capacity(start.dna, image, classes))) is None:
        return start
    most = Capacity(limits.parameters or sys.maxsize, int(limits.flops or sys.maxsize))
    try:
        return start._replace(dna=pruned_to(start.dna, image, classes, most, Random(0)))
    except MutationError as error:
        raise DataError(
            f"'{shown(start.origin)}' cannot be made small enough: {fault} {str(error).capitalize()}"
        ) from None


def note(start: Start, before: Start, data: Dataset, settings: DataSettings) -> str:
    """Say in one line what was chosen for a network with weights."""
    size = f"{data.height}x{data.width}"
    own = f"{before.image.height}x{before.image.width}" if before.image else size
    parts = [f"images of {size}" + (f" (it was trained on {own})" if own != size else "")]
    if settings.mean is None or settings.std is None:
        parts.append("mean and std of the training images, since its own are unknown (data.mean and data.std set them)")
    if start.outputs != before.outputs or before.weights != start.weights:
        parts.append(f"a new classifier for {start.outputs} classes instead of {before.outputs}")
    if start.dna.learning_rate != before.dna.learning_rate or start.dna.body_rate != before.dna.body_rate:
        parts.append(f"learning rate {rates_label(start.dna.learning_rate, start.dna.body_rate)}")
    if any(edge != before.dna.edge[edge.id] for edge in start.dna.edges):
        parts.append("narrowed to the limits")
    return f"Starting from {shown(start.origin)}: {', '.join(parts)}."
