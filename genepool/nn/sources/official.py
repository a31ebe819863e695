"""The official data sets: CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST, from the files their authors publish.

They are looked for in the user's data folder, then among earlier downloads, and downloaded when missing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from genepool.errors import DataError, shown
from genepool.nn.sources.base import Development, Images
from genepool.nn.sources.download import Progress, RemoteFile, download
from genepool.nn.sources.official_files import OfficialFile, OfficialFiles, find_official
from genepool.nn.sources.places import data_folder, downloads_folder, stamp


class Layout(Protocol):
    """How the files of a data set are laid out."""

    @property
    def train(self) -> tuple[str, ...]: ...
    @property
    def test(self) -> tuple[str, ...]: ...
    def size_of(self, name: str) -> int: ...
    def decode(self, files: Sequence[OfficialFile]) -> Images: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialSet:
    """A published data set: its files, where they may lie, and how to read them."""

    name: str
    classes: tuple[str, ...]
    flip: bool
    layout: Layout
    folders: tuple[str, ...]
    """Names of the folder that may hold the files."""
    remote: tuple[RemoteFile, ...]
    archive: tuple[str, str] | None = None
    """The tar file's name and the folder inside, where the files come as one."""

    def find(self, data_dir: Path | None) -> OfficialFiles | None:
        """The files on this machine: in the data folder, else among the downloads, else None."""
        given = data_folder(data_dir)
        if given is not None and (found := self._below(given, self.folders)) is not None:
            return found
        if all((self._downloads / file.name).is_file() for file in self.remote):
            return self._below(downloads_folder(), (self.name,))
        return None

    def fetch(self, progress: Progress | None = None) -> Path:
        """Downloads those files that earlier downloads have not brought; returns their folder."""
        for file in self.remote:
            if not (self._downloads / file.name).is_file():
                download(self._mirrored(file), self._downloads, progress)
        return self._downloads

    def open(self, data_dir: Path | None, progress: Progress | None) -> OfficialSource:
        """The data set from the files on this machine, downloaded first if there are none."""
        files = self.find(data_dir)
        if files is None:
            self.fetch(progress)
            files = self.find(data_dir)
        if files is None:
            raise DataError(f"The download of '{self.name}' in '{shown(self._downloads)}' was removed; try again.")
        return OfficialSource(published=self, files=files)

    @property
    def _downloads(self) -> Path:
        return downloads_folder() / self.name

    def _below(self, root: Path, folders: tuple[str, ...]) -> OfficialFiles | None:
        names = (*self.layout.train, *self.layout.test)
        return find_official(root, folders=folders, names=names, archive=self.archive)

    def _mirrored(self, file: RemoteFile) -> RemoteFile:
        """With the user's own mirror in front, if one is named; the digest makes any mirror trustworthy."""
        mirror = os.environ.get("GENEPOOL_MIRROR")
        own = (f"{mirror.rstrip('/')}/{self.name}/{file.name}",) if mirror else ()
        return RemoteFile(name=file.name, md5=file.md5, urls=own + file.urls)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialSource:
    """A published data set whose files were found."""

    published: OfficialSet
    files: OfficialFiles

    @property
    def name(self) -> str:
        return self.published.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.published.classes

    @property
    def flip(self) -> bool:
        return self.published.flip

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(map(stamp, self.files.files())).encode()).hexdigest()

    def development(self) -> Development:
        return Development(images=self._part(self.published.layout.train))

    def held_out(self) -> Images:
        return self._part(self.published.layout.test)

    def _part(self, names: tuple[str, ...]) -> Images:
        layout = self.published.layout
        return layout.decode(self.files.read(names, layout.size_of))
