"""Downloads of official files, verified by digest. A file appears under its name only when complete and correct."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError

from genepool.errors import DataError, shown

CHUNK = 1 << 16
TIMEOUT = 30.0

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes received so far and the total (None: unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file as published by its authors."""

    name: str
    md5: str
    urls: tuple[str, ...]
    """Tried in this order."""


class _DownloadError(Exception):
    """One address did not deliver the file; the text says why."""


def download(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """Download the file into the folder and return its path; a failure leaves nothing behind."""
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


def _opened(url: str) -> http.client.HTTPResponse:
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        raise _DownloadError(f"the server answered {error.code} {error.reason}") from None
    except URLError as error:
        raise _DownloadError(f"{error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _DownloadError(f"{error}") from None
    return response


def _chunk(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _DownloadError(f"the connection broke ({error})") from None
