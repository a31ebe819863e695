"""A network with weights fitted to the images of an experiment: settings, classifier, learning rates, size.

Differs from the paper, whose networks all begin with random weights. A network that was trained on other classes keeps
everything but its classifier. The new one is zero: its scores are then equal at first, and the other layers receive no
gradient until it has learnt something from their features, so the first steps cannot destroy them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from genepool.data import Dataset, DataSettings, FolderSource, Source, original, prepare
from genepool.dna import ZOO, Capacity, Shape, capacity, rates_label
from genepool.errors import DataError, MutationError, shown
from genepool.evaluation import Limits
from genepool.experiment.start import Start, find_start
from genepool.mutations import pruned_to
from genepool.settings import Settings, changed

PRESET = "finetune"
"""The preset for networks that were trained on other classes, unless another one is given."""


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
