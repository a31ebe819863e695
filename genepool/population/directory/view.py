"""A population directory as observers see it: listed, read and checked without any system call that modifies it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from genepool.errors import DataError, GenepoolError, StorageError
from genepool.population.contract import PopulationView
from genepool.population.directory import names
from genepool.population.directory.contents import Contents, Damaged
from genepool.population.directory.files import Files
from genepool.population.directory.log import ArchiveReader, LogTail, Place, read_place
from genepool.population.directory.manifest import Manifest, read_manifest
from genepool.population.directory.shards import Known, Shards, Sweep
from genepool.population.directory.workers import WorkerFiles
from genepool.population.individual import Birth, Census, Checkpoint, Fossil, Individual, Result, State

T = TypeVar("T")


class DirectoryView(PopulationView):
    """One observer's view of a population directory; works on a read-only mount."""

    def __init__(self, path: str | Path, manifest: Manifest, files: Files) -> None:
        self.path = Path(path)
        self.manifest = manifest
        self._root = str(path)
        self._files = files
        self._shards = Shards(files, f"{path}/pop", manifest.shards)
        self._contents = Contents(files, self._shards, manifest.uuid)

    @classmethod
    def open(cls, path: str | Path, *, files: Files | None = None) -> Self:
        """Open an experiment; raise PopulationFormatError if the directory is not one."""
        files = files or Files()
        return cls(path, read_manifest(files, str(path)), files)

    def snapshot(self) -> list[Individual]:
        # A collected individual no longer exists; its directory may be a spare one for the next child.
        return [i for i in self._shards.sweep().individuals if i.state is not State.COLLECTED]

    def sweep(self) -> Sweep:
        return self._shards.sweep()

    def sweep_again(self, known: Known) -> tuple[Sweep, Known]:
        """Sweep repeatedly: `known` is the second value of the previous call, and empty at first."""
        return self._shards.sweep_again(known)

    def find(self, identity: str) -> Individual | None:
        return self._shards.find(identity)

    def census(self, *, fresh: bool = False) -> Census:
        return self._shards.sweep().census()

    def read_birth(self, individual: Individual) -> Birth:
        return self._checked(self._contents.birth, individual)

    def read_result(self, individual: Individual) -> Result:
        return self._checked(self._contents.result, individual)

    def weights(self, individual: Individual) -> bytes | None:
        result = self.read_result(individual)
        if names.WEIGHTS not in result.files:
            return None
        return self._checked(self._contents.stored, individual, result, names.WEIGHTS)

    def verify(self, individual: Individual) -> None:
        """Read every file of an ALIVE or DEAD individual's result; raise if one does not match its hash."""
        result = self.read_result(individual)
        for name in result.files:
            self._checked(self._contents.stored, individual, result, name)

    def inherited_weights(self, individual: Individual) -> tuple[bytes, ...]:
        birth = self._birth_of_own(individual) or self.read_birth(individual)
        if individual.state is not State.TRAINING:
            return ()  # removed after training, so missing files are not damage
        inherits = enumerate(birth.inherits)
        return tuple(self._checked(self._contents.inherited, individual, *each) for each in inherits)

    def _birth_of_own(self, individual: Individual) -> Birth | None:
        """Return the record of an individual that this process has just created."""
        return None

    def checkpoint(self, individual: Individual) -> Checkpoint | None:
        return self._checked(self._contents.checkpoint, individual)

    def fossils(self) -> Iterator[Fossil]:
        try:
            found = ArchiveReader(self._files, f"{self._root}/workers").fossils()
        except OSError as error:
            raise StorageError(f"The archives in {self._root}/workers cannot be read: {error}.") from error
        yield from found.values()

    def log_tail(self, *kinds: str) -> LogTail:
        return LogTail(self._files, f"{self._root}/workers", *kinds)

    def read_log(self, place: Place) -> bytes | None:
        return read_place(self._files, place)

    def worker(self, who: str) -> WorkerFiles:
        return WorkerFiles(self._files, f"{self._root}/workers/{who}")

    def executed(self) -> dict[str, int]:
        """Return the FLOPs that each worker has executed by its latest heartbeat, whatever became of them."""
        try:
            found = filter(names.is_who, self._files.list(f"{self._root}/workers"))
        except OSError:  # no worker yet
            return {}
        return {who: self.worker(who).flops() for who in found}

    def _checked(self, read: Callable[..., T], individual: Individual, *arguments: Any) -> T:
        try:
            return read(individual, *arguments)
        except Damaged as damage:
            raise self._met_damage(individual, damage) from damage

    def _met_damage(self, individual: Individual, damage: Damaged) -> GenepoolError:
        return DataError(f"Individual {individual.id} is damaged: {damage}; see `genepool check`.")
