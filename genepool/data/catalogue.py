"""Data sets by name, and any source by name or path."""

from __future__ import annotations

from pathlib import Path

from genepool.data import fashion_mini
from genepool.data.arrays import NpzSource
from genepool.data.image_folder import FolderSource
from genepool.data.official import sets
from genepool.data.source import Listing, Progress, Source
from genepool.errors import DataError, SettingsError, shown
from genepool.registry import Registry

SOURCES: Registry[Listing] = Registry("data set", "genepool.datasets")

for _listing in (fashion_mini.LISTING, *sets.LISTINGS):
    SOURCES.register(_listing.name)(_listing)


def open_source(
    spec: str | Path,
    *,
    data_dir: Path | None = None,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    flip: bool | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open the source of that name (which takes precedence; write `./name` for a folder), or at that path: a folder
    of images or a `.npz` file. `size` (height, width) is for folders; `flip` (whether mirror images are valid) for
    both. A folder's images are read with `channels` if given; `AdaptedSource` converts those of other sources."""
    if isinstance(spec, str) and spec in SOURCES:
        if size is not None or flip is not None:
            raise SettingsError(f"The size and flip of the data set '{spec}' are fixed; leave them out.")
        return SOURCES.get(spec).open(data_dir, progress)
    path, mirrored = Path(spec), flip is not False
    try:
        if path.is_dir():
            return FolderSource(path, size=size, channels=channels, flip=mirrored)
        if path.is_file() and path.suffix.lower() == ".npz":
            if size is not None:
                raise SettingsError(f"The images in '{shown(path)}' already have a size; leave it out.")
            return NpzSource(path, flip=mirrored)
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise DataError(f"'{shown(path)}' cannot be opened ({shown(str(error))}).") from error
    if exists:
        raise DataError(f"'{shown(path)}' is neither a folder of images nor a .npz file; give one of these or a name.")
    if isinstance(spec, Path) or len(path.parts) != 1 or path.suffix:
        raise DataError(f"There is no folder or file '{shown(path)}'; give a folder of images, a .npz file or a name.")
    return SOURCES.get(shown(spec)).open(data_dir, progress)
