"""A population directory as observers see it: listed, read and checked without a single modifying system call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from genepool.errors import DataError, GenepoolError, StorageError
from genepool.population.contract import PopulationView
from genepool.population.directory import names
from genepool.population.directory.archive import Excavation, FossilTail
from genepool.population.directory.contents import Contents, Damaged, Missing
from genepool.population.directory.files import Files
from genepool.population.directory.manifest import Manifest, read_manifest
from genepool.population.directory.shards import Known, Shards, Sweep
from genepool.population.individual import Birth, Census, Checkpoint, Fossil, Individual, Result, State


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
        """Enters an experiment; raises PopulationFormatError if there is none of ours."""
        files = files or Files()
        return cls(path, read_manifest(files, str(path)), files)

    # Looking.

    def snapshot(self) -> list[Individual]:
        # What is being collected is nobody any more; its directory may wait for the next newborn.
        return [i for i in self._shards.sweep().individuals if i.state is not State.COLLECTED]

    def sweep(self) -> Sweep:
        """Everything that is there, individuals and foreign entries."""
        return self._shards.sweep()

    def sweep_again(self, known: Known) -> tuple[Sweep, Known]:
        """The same for somebody who keeps looking: `known` is from the last time, and empty at first."""
        return self._shards.sweep_again(known)

    def find(self, identity: str) -> Individual | None:
        """The individual of that ID as it is now, by one listing; None if it is not there."""
        return self._shards.find(identity)

    def sample(self, rng: random.Random) -> Individual:
        return self._shards.draw_from_all(rng)

    def census(self, *, fresh: bool = False) -> Census:
        return self._shards.sweep().census()

    # Reading.

    def read_birth(self, individual: Individual) -> Birth:
        try:
            return self._contents.birth(individual)
        except Damaged as damage:
            raise self._met_damage(individual, damage) from damage

    def read_result(self, individual: Individual) -> Result:
        try:
            return self._contents.result(individual)
        except Damaged as damage:
            raise self._met_damage(individual, damage) from damage

    def weights(self, individual: Individual) -> bytes | None:
        result = self.read_result(individual)
        return self._stored(individual, result, names.WEIGHTS) if names.WEIGHTS in result.files else None

    def verify(self, individual: Individual) -> None:
        """Reads every file of an ALIVE or DEAD individual's result; raises unless all is as promised."""
        result = self.read_result(individual)
        for name in result.files:
            self._stored(individual, result, name)

    def _stored(self, individual: Individual, result: Result, name: str) -> bytes | None:
        try:
            return self._contents.stored(individual, result, name)
        except Damaged as damage:
            if isinstance(damage, Missing) and individual.state is State.DEAD:
                return None  # stripped
            raise self._met_damage(individual, damage) from damage

    def inherited_weights(self, individual: Individual) -> tuple[bytes, ...]:
        birth = self._birth_of_own(individual) or self.read_birth(individual)
        if individual.state is not State.TRAINING:
            return ()  # removed after training, so missing files are not damage
        try:
            return tuple(self._contents.inherited(individual, *each) for each in enumerate(birth.inherits))
        except Damaged as damage:
            raise self._met_damage(individual, damage) from damage

    def _birth_of_own(self, individual: Individual) -> Birth | None:
        """The record of somebody whom this very process has just made."""
        return None

    def checkpoint(self, individual: Individual) -> Checkpoint | None:
        try:
            return self._contents.checkpoint(individual)
        except Damaged as damage:
            raise self._met_damage(individual, damage) from damage

    def fossils(self) -> Iterator[Fossil]:
        try:
            found = Excavation(self._files, f"{self._root}/workers").fossils()
        except OSError as error:
            raise StorageError(f"The archives in {self._root}/workers cannot be read: {error}.") from error
        yield from found.values()

    def fossil_tail(self) -> FossilTail:
        """The archives for somebody who comes back for more."""
        return FossilTail(self._files, f"{self._root}/workers")

    def _met_damage(self, individual: Individual, damage: Damaged) -> GenepoolError:
        return DataError(f"Individual {individual.id} is damaged: {damage}; `genepool check` tells more.")
