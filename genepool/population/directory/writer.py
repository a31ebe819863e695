"""Writing inside an individual's directory, so that what is there is complete or absent.

Calls fail with OSError; the population gives that its meaning. Every path holds the individual's whole name, so the
calls of a former owner fail with ENOENT from the moment of a takeover.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping

import msgspec

from genepool.errors import ConcurrencyError
from genepool.population.directory import names
from genepool.population.directory.contents import LARGEST_FILE, Contents, sha256
from genepool.population.directory.files import NO_LINKS, Files
from genepool.population.directory.shards import Shards, commit
from genepool.population.individual import Birth, Checkpoint, Individual, Result, StoredFile


def promise(files: Mapping[str, bytes]) -> dict[str, StoredFile]:
    """What a result says about its files."""
    return {name: StoredFile(sha256=sha256(data), size=len(data)) for name, data in files.items()}


def check_result(fitness: float, files: Mapping[str, bytes]) -> None:
    """Refuses what could not be told from damage later."""
    if not math.isfinite(fitness):
        raise ValueError(f"The fitness {fitness} is not finite; a training that diverged has fitness 0.0.")
    for name in files:
        if not names.is_file(name):
            raise ValueError(f"An attempt cannot hold a file called '{name}'; use lower-case letters and one suffix.")


class Writer:
    """Writes inside the individuals of one worker."""

    def __init__(self, files: Files, shards: Shards, contents: Contents) -> None:
        self._files = files
        self._shards = shards
        self._contents = contents
        self.spare: Individual | None = None
        """Collected, and its directory empty: the next newborn's, since some file systems take long to make one."""

    def write_staging(self, staging: Individual, birth: Birth, sources: Iterable[str]) -> None:
        """A complete new individual under its private name, with the weights of its parents."""
        path = self._shards.path(staging)
        self._make_room(staging)
        self._files.save(f"{path}/{names.BIRTH}", msgspec.json.encode(birth))
        for number, source in enumerate(sources):
            self._link(source, path, names.inherited_name(number))
        self._files.sync_dir(path)

    def _make_room(self, staging: Individual) -> None:
        spare, self.spare = self.spare, None
        if spare is not None:
            with contextlib.suppress(ConcurrencyError):  # somebody thought that we were gone, and removed it
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
            # The name is ours alone: if it is there, a lost reply made the repeated request fail.
            elif name not in self._files.list(path):
                raise

    def write_checkpoint(self, individual: Individual, checkpoint: Checkpoint) -> None:
        """A new checkpoint beside the old, then without it."""
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

    def write_result(self, individual: Individual, result: Result, files: Mapping[str, bytes]) -> None:
        """All files of the owner's attempt, and then the result that binds them."""
        path, attempt = self._shards.path(individual), individual.attempt
        for name, data in files.items():
            self._files.save(f"{path}/{names.of_attempt(attempt, name)}", data)
        final, record = names.of_attempt(attempt, names.RESULT), msgspec.json.encode(result)
        if not self._files.safe:
            self._files.save(f"{path}/{final}", record)
            return
        # Others may adopt whatever is complete under this name, so it must not show before its bytes are on the disk.
        unsynced = names.of_attempt(attempt, names.UNSYNCED)
        self._files.save(f"{path}/{unsynced}", record)
        commit(self._files, path, unsynced, final)
        self._files.sync_dir(path)

    def clear_result(self, individual: Individual, files: Iterable[str]) -> None:
        """Removes what a failed `write_result` of the owner's attempt may have left; its checkpoint stays.

        The result goes first: one that decodes without its files would look as if somebody else had been here.
        """
        path = self._shards.path(individual)
        for part in (names.RESULT, names.UNSYNCED, *files):
            self._files.remove_tree(f"{path}/{names.of_attempt(individual.attempt, part)}")

    def write_reason(self, individual: Individual, reason: str) -> None:
        """The sentence that goes with FAILED."""
        name = names.of_attempt(individual.attempt, names.FAILURE)
        self._files.save(f"{self._shards.path(individual)}/{name}", msgspec.json.encode(reason))

    def drop_inherited(self, individual: Individual) -> None:
        """Removes the link to the parent's weights, which kept their space in use."""
        with contextlib.suppress(OSError):
            self._files.remove(f"{self._shards.path(individual)}/{names.inherited_name(0)}")

    def tidy(self, individual: Individual) -> None:
        """Removes what training needed from an ALIVE individual; what stays because of an error goes with the rest."""
        path = self._shards.path(individual)
        with contextlib.suppress(OSError):
            for name in self._files.list(path):
                if _was_for_training(name, individual.attempt):
                    self._files.remove_tree(f"{path}/{name}")

    def remove(self, individual: Individual, result: Result | None) -> None:
        """Removes a whole individual; a result tells what is in it, which mostly saves looking."""
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
        """Leaves nothing lying about."""
        spare, self.spare = self.spare, None
        if spare is not None:
            with contextlib.suppress(OSError):
                self._files.rmdir(self._shards.path(spare))

    def strip(self, individual: Individual) -> None:
        """Removes everything large from a DEAD or FAILED individual."""
        path = self._shards.path(individual)
        for name in self._contents.entries(individual):
            found = names.parse_of_attempt(name)
            if names.is_inherited(name) or (found and found[1] not in (names.RESULT, names.FAILURE)):
                self._files.remove_tree(f"{path}/{name}")


def _is_checkpoint(name: str, attempt: str) -> bool:
    """Whether this attempt wrote it and it is a checkpoint, or was to become one."""
    found = names.parse_of_attempt(name)
    return found is not None and found[0] == attempt and _is_of_training(found[1])


def _was_for_training(name: str, attempt: str) -> bool:
    """Whether it is not needed any more once this attempt's result counts."""
    found = names.parse_of_attempt(name)
    if found is None:
        return names.is_inherited(name)
    return found[0] != attempt or _is_of_training(found[1])


def _is_of_training(part: str) -> bool:
    return part == names.NEW or names.parse_checkpoint(part) is not None
