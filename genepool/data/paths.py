"""Where data sets are looked for and kept, and files that are written atomically.

Files that appear whole or not at all.

Where data sets are looked for and where they are kept.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from genepool.errors import DataError, shown


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file, or replaces the one that is there. If that fails, what was there stays and nothing is added."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def stamp(path: Path) -> str:
    """A file's place, size and time of change: the part of a fingerprint that costs no reading."""
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"'{shown(path)}' cannot be read ({error.strerror}).") from error
    return f"{shown(path.resolve())} {status.st_size} {status.st_mtime_ns}"


def data_folder(given: Path | None) -> Path | None:
    """The user's folder of official files: the given one, else GENEPOOL_DATA, else none."""
    named = os.environ.get("GENEPOOL_DATA")
    folder = given or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise DataError(
            f"The data folder '{shown(folder)}' does not exist; correct --data-dir or the variable GENEPOOL_DATA."
        )
    return folder


def cache_folder() -> Path:
    """Where downloads and prepared data are kept: GENEPOOL_CACHE, else the user's cache folder."""
    if named := os.environ.get("GENEPOOL_CACHE"):
        return Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "genepool"
    try:
        return Path.home() / ".cache" / "genepool"
    except RuntimeError as error:
        raise DataError("No home folder is known to keep data in; set GENEPOOL_CACHE to a folder.") from error


def downloads_folder() -> Path:
    """Where downloaded official files are kept, one folder a data set."""
    return cache_folder() / "downloads"
