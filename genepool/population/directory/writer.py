"""Writing in an individual's directory, so that everything there is complete or absent.

Calls fail with OSError, which the population interprets. Every path contains the individual's complete name, so a
former owner's calls fail with ENOENT from the moment of a takeover.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable

import msgspec

from genepool.errors import ConcurrencyError
from genepool.population.contract import Metrics, NamedData
from genepool.population.directory import names
from genepool.population.directory.contents import LARGEST_FILE, sha256
from genepool.population.directory.files import NO_LINKS, Files
from genepool.population.directory.shards import Shards, commit
from genepool.population.individual import Birth, Checkpoint, Individual, Result, StoredFile


def stored_files(files: NamedData) -> dict[str, StoredFile]:
    return {name: StoredFile(sha256=sha256(data), size=len(data)) for name, data in files.items()}


def make_result(mine: Individual, fitness: float, metrics: Metrics | None, files: NamedData, finished: float) -> Result:
    """Return the result of the owner's attempt; refuse one that would look like damage later."""
    if not math.isfinite(fitness):
        raise ValueError(f"The fitness {fitness} is not finite; use 0.0 for a training that diverged.")
    for name in files:
        if not names.is_file(name):
            raise ValueError(f"An attempt cannot hold a file called '{name}'; use lower-case letters and one suffix.")
    return Result(
        id=mine.id,
        attempt=mine.attempt,
        fitness=float(fitness),
        metrics=dict(metrics or {}),
        files=stored_files(files),
        finished=finished,
    )


class Writer:
    def __init__(self, files: Files, shards: Shards) -> None:
        self._files, self._shards = files, shards
        self.spare: Individual | None = None
        """A collected individual whose empty directory the next child gets: some file systems create one slowly."""

    def write_staging(self, staging: Individual, birth: Birth, sources: Iterable[str]) -> None:
        """Write a complete new individual under its private name, with the weights of its parents."""
        path = self._shards.path(staging)
        self._make_room(staging)
        self._files.save(f"{path}/{names.BIRTH}", msgspec.json.encode(birth))
        for number, source in enumerate(sources):
            self._link(source, path, names.inherited_name(number))
        self._files.sync_dir(path)

    def _make_room(self, staging: Individual) -> None:
        spare, self.spare = self.spare, None
        if spare is not None:
            with contextlib.suppress(ConcurrencyError):  # another worker took this one for dead and removed it
                self._shards.move(spare, staging)
                return
        self._files.mkdir(self._shards.path(staging))

    def _link(self, source: str, path: str, name: str) -> None:
        target = f"{path}/{name}"
        try:
            self._files.link(source, target)
        except OSError as error:
            if error.errno in NO_LINKS:
                self._files.save(target, self._files.load(source, LARGEST_FILE))
            # Only this worker uses the name: if it exists, the reply was lost and a repeated request failed.
            elif name not in self._files.list(path):
                raise

    def write_checkpoint(self, individual: Individual, checkpoint: Checkpoint) -> None:
        """Write a new checkpoint beside the old one, then remove the old one."""
        path, attempt = self._shards.path(individual), individual.attempt
        older = [name for name in self._files.list(path) if _is_checkpoint(name, attempt)]
        new = names.of_attempt(attempt, names.NEW)
        name = names.of_attempt(attempt, names.checkpoint_name(checkpoint.step, sha256(checkpoint.data)))
        if name in older:
            return
        self._files.remove(f"{path}/{new}")
        self._files.save(f"{path}/{new}", checkpoint.data)
        commit(self._files, path, new, name)
        self._files.sync_dir(path)
        for old in older:
            self._files.remove(f"{path}/{old}")

    def write_result(self, individual: Individual, result: Result, files: NamedData) -> None:
        """Write all files of the owner's attempt, then the result that binds them."""
        path, attempt = self._shards.path(individual), individual.attempt
        for name, data in files.items():
            self._files.save(f"{path}/{names.of_attempt(attempt, name)}", data)
        final, record = names.of_attempt(attempt, names.RESULT), msgspec.json.encode(result)
        if not self._files.safe:
            self._files.save(f"{path}/{final}", record)
            return
        # Other workers may adopt a complete result under this name, so its bytes must reach the disk first.
        unsynced = names.of_attempt(attempt, names.UNSYNCED)
        self._files.save(f"{path}/{unsynced}", record)
        commit(self._files, path, unsynced, final)
        self._files.sync_dir(path)

    def clear_result(self, individual: Individual, files: Iterable[str]) -> None:
        """Remove what a failed `write_result` of the owner's attempt may have left; its checkpoint stays. The result
        goes first: one that decodes but lacks files would look like another worker's interference."""
        path = self._shards.path(individual)
        for part in (names.RESULT, names.UNSYNCED, *files):
            self._files.remove_tree(f"{path}/{names.of_attempt(individual.attempt, part)}")

    def write_reason(self, individual: Individual, reason: str) -> None:
        name = names.of_attempt(individual.attempt, names.FAILURE)
        self._files.save(f"{self._shards.path(individual)}/{name}", msgspec.json.encode(reason))

    def drop_inherited(self, individual: Individual) -> None:
        """Remove the link to the parent's weights, which kept their space in use."""
        with contextlib.suppress(OSError):
            self._files.remove(f"{self._shards.path(individual)}/{names.inherited_name(0)}")

    def tidy(self, individual: Individual) -> None:
        """Remove the files that only training needed; after an error the rest goes when the individual is collected."""
        path = self._shards.path(individual)
        with contextlib.suppress(OSError):
            for name in self._files.list(path):
                if _was_for_training(name, individual.attempt):
                    self._files.remove_tree(f"{path}/{name}")

    def remove(self, individual: Individual, result: Result | None) -> None:
        """Remove an individual; a result lists its files, which usually saves listing the directory."""
        path = self._shards.path(individual)
        if result is not None:
            with contextlib.suppress(OSError):
                parts = (*result.files, names.RESULT)
                inside = (names.BIRTH, *(names.of_attempt(result.attempt, part) for part in parts))
                left = self._files.clear(path, [f"{path}/{name}" for name in inside])
                if self.spare is None and not left:
                    self.spare = individual
                else:
                    self._files.rmdir(path)
                return
        self._files.remove_tree(path)

    def close(self) -> None:
        spare, self.spare = self.spare, None
        if spare is not None:
            with contextlib.suppress(OSError):
                self._files.rmdir(self._shards.path(spare))


def _is_checkpoint(name: str, attempt: str) -> bool:
    found = names.parse_of_attempt(name)
    return found is not None and found[0] == attempt and _is_of_training(found[1])


def _was_for_training(name: str, attempt: str) -> bool:
    found = names.parse_of_attempt(name)
    if found is None:
        return names.is_inherited(name)
    return found[0] != attempt or _is_of_training(found[1])


def _is_of_training(part: str) -> bool:
    return part == names.NEW or names.parse_checkpoint(part) is not None
