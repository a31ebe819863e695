"""Official files of a data set: finds them in a folder, loose (plain or .gz) or in their tar archive, and reads them.

Nothing is unpacked to disk: members are read from an archive by their known names, up to their known sizes.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from genepool.errors import DataError, shown

SizeOf = Callable[[str], int]
READ_ERRORS = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)


class Readable(Protocol):
    """An open file, possibly decompressing."""

    def read(self, size: int, /) -> bytes: ...


class OfficialFile(NamedTuple):
    name: str
    where: str
    """Its path for messages."""
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseFiles:
    """Individual files, each plain or compressed."""

    place: Path
    """Their folder."""
    paths: Mapping[str, Path]

    def files(self) -> list[Path]:
        """Return all files on disk, for the fingerprint."""
        return list(self.paths.values())

    def read(self, names: Sequence[str], size_of: SizeOf) -> list[OfficialFile]:
        paths = [(name, self.paths[name]) for name in names]
        return [OfficialFile(name, shown(path), self._read_one(path, size_of(name))) for name, path in paths]

    def _read_one(self, path: Path, size: int) -> bytes:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
                return _exactly(stream, size, shown(path))
        except READ_ERRORS as error:
            raise _unreadable(path, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TarFile:
    """The official archive."""

    place: Path
    """The path of the archive."""
    folder: str
    """The only folder inside."""

    def files(self) -> list[Path]:
        """Return all files on disk, for the fingerprint."""
        return [self.place]

    def read(self, names: Sequence[str], size_of: SizeOf) -> list[OfficialFile]:
        """Read those members in one pass over the archive."""
        wanted = {PurePosixPath(self.folder, name): name for name in names}
        found: dict[str, bytes] = {}
        try:
            with tarfile.open(self.place, mode="r|*") as archive:
                for member in archive:
                    name = wanted.pop(PurePosixPath(member.name), None)
                    stream = archive.extractfile(member) if name is not None and member.isreg() else None
                    if name is not None and stream is not None:
                        found[name] = _exactly(stream, size_of(name), self._label(name))
                    if not wanted:
                        break
        except READ_ERRORS as error:
            raise _unreadable(self.place, error) from error
        for name in names:
            if name not in found:
                raise DataError(f"The archive '{shown(self.place)}' has no '{self.folder}/{name}'; download it again.")
        return [OfficialFile(name, self._label(name), found[name]) for name in names]

    def _label(self, name: str) -> str:
        return f"{shown(self.place)}:{self.folder}/{name}"


OfficialFiles = LooseFiles | TarFile


def _exactly(stream: Readable, size: int, label: str) -> bytes:
    content = stream.read(size + 1)
    if len(content) != size:
        raise DataError(
            f"'{label}' has {'more than ' if len(content) > size else ''}{min(len(content), size):,} bytes instead of "
            f"{size:,}: it is {'not the official file' if len(content) > size else 'truncated'}; download it again."
        )
    return content


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"'{shown(path)}' cannot be read ({shown(str(error))}): it is damaged or not the official file; download it "
        f"again."
    )


def find_official(
    root: Path, *, folders: Sequence[str], names: Sequence[str], archive: tuple[str, str] | None
) -> OfficialFiles | None:
    """Find the files below that root, or return None. `archive` names the tar file and the folder inside.

    The root itself counts if it has the name of one of the subfolders.
    """
    places = [root / folder for folder in folders]
    if root.resolve().name in folders:
        places.append(root)
    for place in places:
        if (loose := _loose(place, names)) is not None:
            return loose
    if archive is not None:
        for place in [root, *places]:
            if (place / archive[0]).is_file():
                return TarFile(place=place / archive[0], folder=archive[1])
    return None


def _loose(place: Path, names: Sequence[str]) -> LooseFiles | None:
    """Return None if none of the files is there; if only some are, raise an error that names a missing one."""
    paths = {}
    for name in names:
        for candidate in (place / name, place / f"{name}.gz"):
            if candidate.is_file():
                paths[name] = candidate
                break
    missing = [name for name in names if name not in paths]
    if paths and missing:
        raise DataError(f"The folder '{shown(place)}' lacks the file '{missing[0]}'; put it next to the others.")
    return None if missing else LooseFiles(place=place, paths=paths)
