"""Where images come from: data sets by name, folders of images, `.npz` files and arrays. Imports no torch.

base           what every source gives
published      the table of the official data sets; official, official_files, cifar, idx, download read them
fashion_mini   the small data set shipped with Genepool
folder         a folder of images; tree lists its files, pictures decodes one
npz, arrays    NumPy's files and arrays
splits         stratified splits;  places: where data is kept;  catalogue: one line of `genepool data`
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from genepool.data import fashion_mini
from genepool.data.arrays import ArraySource
from genepool.data.download import Progress
from genepool.data.image_folder import FolderSource
from genepool.data.npz import NpzSource
from genepool.data.official import sets
from genepool.data.source import Development, Images, Listing, Source
from genepool.errors import DataError, SettingsError, shown
from genepool.registry import Registry

__all__ = [
    "SOURCES",
    "ArraySource",
    "DataSettings",
    "Development",
    "FolderSource",
    "Images",
    "Listing",
    "NpzSource",
    "Source",
    "open_source",
]

SOURCES: Registry[Listing] = Registry("data set", "genepool.datasets")

for _listing in (fashion_mini.LISTING, *sets.LISTINGS):
    SOURCES.register(_listing.name)(_listing)


def open_source(
    spec: str | Path,
    *,
    data_dir: Path | None = None,
    size: tuple[int, int] | None = None,
    flip: bool | None = None,
    progress: Progress | None = None,
) -> Source:
    """The source of that name, or at that path: a folder of images or a `.npz` file.

    `size` (height, width) is for folders; `flip` (is a mirror image as good an example?) for folders and `.npz` files.
    A name wins over a folder of the same name in the current directory; write `./name` for the folder.
    """
    if isinstance(spec, str) and spec in SOURCES:
        if size is not None or flip is not None:
            raise SettingsError(f"The size and flip of the data set '{spec}' are fixed; leave them out.")
        return SOURCES.get(spec).open(data_dir, progress)
    path = Path(spec)
    mirrored = True if flip is None else flip
    try:
        if path.is_dir():
            return FolderSource(path, size=size, flip=mirrored)
        if path.is_file() and path.suffix.lower() == ".npz":
            if size is not None:
                raise SettingsError(f"The images in '{shown(path)}' have a size already; leave the size out.")
            return NpzSource(path, flip=mirrored)
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise DataError(f"'{shown(path)}' cannot be opened ({shown(str(error))}).") from error
    if exists:
        raise DataError(f"'{shown(path)}' is neither a folder of images nor a .npz file; give one of these or a name.")
    if isinstance(spec, Path) or len(path.parts) != 1 or path.suffix:
        raise DataError(f"There is no folder or file '{shown(path)}'; give a folder of images, a .npz file or a name.")
    return SOURCES.get(shown(spec)).open(data_dir, progress)


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
        """The source that these settings name."""
        flip = None if self.flip else False  # None: as the data set itself says
        return open_source(self.source, data_dir=data_dir, size=self.height_and_width, flip=flip, progress=progress)
