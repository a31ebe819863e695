"""The settings of the images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from genepool.data.source import Progress, Source


_NUMBER = r"([0-9]{0,4}\.)?[0-9]{1,20}"
PER_CHANNEL = rf"^{_NUMBER}(,{_NUMBER},{_NUMBER})?$"
"""One number, or three of them, on the scale 0..1."""


class DataSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The images of an experiment."""

    source: Annotated[str, Meta(extra={"fixed": True})] = "cifar-10"
    """A data set's name, or the path of a folder of images or of a .npz file."""
    size: Annotated[
        Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$", examples=["32x32"])] | None,
        Meta(extra={"fixed": True}),
    ] = None
    """Height x width that the images of a folder are scaled to, such as 32x32; none: their median."""
    channels: Annotated[Literal[1, 3] | None, Meta(extra={"fixed": True})] = None
    """Channels that all images are converted to: 1 (grey) or 3 (colour); none: as they are."""
    mean: Annotated[
        Annotated[str, Meta(pattern=PER_CHANNEL, examples=["0.485,0.456,0.406"])] | None, Meta(extra={"fixed": True})
    ] = None
    """What is subtracted from each channel on the scale 0..1, such as 0.485,0.456,0.406; none: the mean of the training
    images. Differs from the paper if given, by `--start`: pretrained networks need the numbers they were trained with.
    """
    std: Annotated[
        Annotated[str, Meta(pattern=PER_CHANNEL, examples=["0.229,0.224,0.225"])] | None, Meta(extra={"fixed": True})
    ] = None
    """What each channel is divided by after that; none: the standard deviation of the training images."""
    flip: Annotated[bool, Meta(extra={"fixed": True})] = True
    """Whether mirror images are valid examples, for a folder or a .npz file: not for digits, letters or signs."""

    @property
    def height_and_width(self) -> tuple[int, int] | None:
        if self.size is None:
            return None
        height, width = map(int, self.size.split("x"))
        return height, width

    def open(self, data_dir: Path | None = None, progress: Progress | None = None) -> Source:
        from genepool.data.catalogue import open_source

        flip = None if self.flip else False  # None: as the data set defines
        size, channels = self.height_and_width, self.channels
        source = open_source(self.source, data_dir=data_dir, size=size, channels=channels, flip=flip, progress=progress)
        return self.adapted(source)

    def adapted(self, source: Source) -> Source:
        """The source with the channels, mean and std of the settings."""
        if self.channels is None and self.mean is None and self.std is None:
            return source
        from genepool.data.source import AdaptedSource

        return AdaptedSource(source, channels=self.channels, mean=_numbers(self.mean), std=_numbers(self.std))


def _numbers(text: str | None) -> tuple[float, ...] | None:
    return None if text is None else tuple(float(number) for number in text.split(","))
