"""The files of data sets: their folders, verified downloads, and atomic writes."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from genepool.errors import DataError, shown

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from genepool.data.source import Progress

CHUNK = 1 << 16
TIMEOUT = 30.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    name: str
    md5: str
    urls: tuple[str, ...]  # tried in this order


class _DownloadError(Exception):
    """One address did not deliver the file; the text says why."""


def download(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """Download the file into the folder. It appears there only when complete and correct; a failure leaves nothing."""
    reasons = []
    for url in file.urls:
        try:
            return _from_one_place(file, url, folder, progress)
        except _DownloadError as failed:
            reasons.append(f"{url}: {failed}")
    raise DataError(
        f"'{file.name}' could not be downloaded ({'; '.join(reasons)}); check the connection and try again, or put it "
        f"into a folder '{shown(folder.name)}' and give the parent of that with --data-dir or GENEPOOL_DATA."
    )


def _from_one_place(file: RemoteFile, url: str, folder: Path, progress: Progress | None) -> Path:
    part: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{file.name}.", suffix=".part", delete=False) as stream:
            part = Path(stream.name)
            _receive(file, url, stream, progress)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(0o644)
        return part.replace(folder / file.name)
    except OSError as error:
        raise DataError(
            f"'{file.name}' cannot be written into '{shown(folder)}' ({error.strerror or error}); free some space or "
            f"set GENEPOOL_CACHE to a writable folder."
        ) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _receive(file: RemoteFile, url: str, stream: IO[bytes], progress: Progress | None) -> None:
    """Copy the body into the stream; refuse one that is too short or has the wrong digest."""
    digest, done = hashlib.md5(usedforsecurity=False), 0
    with _opened(url) as response:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        while chunk := _chunk(response):
            stream.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(file.name, done, total)
    if total is not None and done < total:
        raise _DownloadError(f"the connection ended after {done:,} of {total:,} bytes")
    if digest.hexdigest() != file.md5:
        raise _DownloadError(f"the file has the md5 digest {digest.hexdigest()} instead of {file.md5}")


def _opened(url: str) -> HTTPResponse:
    from http.client import HTTPException  # slow to load, and most runs download nothing
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        response: HTTPResponse = urlopen(url, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        raise _DownloadError(f"the server answered {error.code} {error.reason}") from None
    except URLError as error:
        raise _DownloadError(f"{error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise _DownloadError(f"{error}") from None
    return response


def _chunk(response: HTTPResponse) -> bytes:
    from http.client import HTTPException

    try:
        return response.read(CHUNK)
    except (OSError, HTTPException, ValueError) as error:
        raise _DownloadError(f"the connection broke ({error})") from None
