"""Folders for data sets, and atomic file writes."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from genepool.errors import DataError, shown


def write_atomic(path: Path, data: bytes) -> None:
    """Write or replace a file; on failure, the old file stays and no new one appears."""
    # Not by the process's number alone: containers on several machines may have the same one.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def save_file(path: Path, data: bytes, what: str) -> None:
    """Write a file atomically; on failure, raise a DataError that names `what` and the path."""
    try:
        write_atomic(path, data)
    except OSError as error:
        raise DataError(f"The {what} cannot be written to '{shown(path)}': {error.strerror or error}.") from None


def require_writable(path: Path) -> None:
    """Refuse a path that cannot be written to; call this before a long training, not after it."""
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        raise DataError(f"'{shown(path)}' cannot be written; create its folder first or choose another.")


def stamp(path: Path) -> str:
    """Return a file's path, size and modification time: the part of a fingerprint that needs no reading."""
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"'{shown(path)}' cannot be read ({error.strerror}).") from error
    return f"{shown(path.resolve())} {status.st_size} {status.st_mtime_ns}"


def data_folder(given: Path | None) -> Path | None:
    """Return the user's folder of official files: the given one, or GENEPOOL_DATA, or None."""
    named = os.environ.get("GENEPOOL_DATA")
    folder = given or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise DataError(
            f"The data folder '{shown(folder)}' does not exist; correct --data-dir or the variable GENEPOOL_DATA."
        )
    return folder


def cache_folder() -> Path:
    """Return the folder for downloads and prepared data: GENEPOOL_CACHE or the user's cache folder."""
    if named := os.environ.get("GENEPOOL_CACHE"):
        return Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "genepool"
    try:
        return Path.home() / ".cache" / "genepool"
    except RuntimeError as error:
        raise DataError("There is no home folder to keep data in; set GENEPOOL_CACHE to a folder.") from error
