"""The settings of the images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from genepool.data.download import Progress
    from genepool.data.source import Source


class DataSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The images of an experiment."""

    source: Annotated[str, Meta(extra={"fixed": True})] = "cifar-10"
    """A data set's name, or the path of a folder of images or of a .npz file."""
    size: Annotated[
        Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$", examples=["32x32"])] | None,
        Meta(extra={"fixed": True}),
    ] = None
    """Height x width that the images of a folder are scaled to, such as 32x32; none: their median."""
    flip: Annotated[bool, Meta(extra={"fixed": True})] = True
    """Whether mirror images are valid examples, for a folder or a .npz file: not for digits, letters or signs."""

    @property
    def height_and_width(self) -> tuple[int, int] | None:
        """The size as numbers."""
        if self.size is None:
            return None
        height, width = map(int, self.size.split("x"))
        return height, width

    def open(self, data_dir: Path | None = None, progress: Progress | None = None) -> Source:
        """Open the source that these settings name."""
        from genepool.data.catalogue import open_source

        flip = None if self.flip else False  # None: as the data set defines
        return open_source(self.source, data_dir=data_dir, size=self.height_and_width, flip=flip, progress=progress)
