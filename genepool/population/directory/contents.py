"""Reads the contents of an individual's directory, with suspicion; `docs/reference/store.md` lists them.

A result is complete if it decodes, names this individual and this attempt, and every file has the recorded hash. It is
written last, and the beginning of a JSON object never decodes, so a crash at any point, or a former owner that is still
writing, leaves a complete result or none. At durability `safe`, `result.json` gets its name only after all bytes were
synced: a worker that adopts a result then only has to sync the names.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from typing import TypeVar

import msgspec

from genepool.errors import ConcurrencyError, StorageError
from genepool.population.directory import names
from genepool.population.directory.files import NOT_A_FILE, Files
from genepool.population.directory.shards import Shards
from genepool.population.individual import Birth, Checkpoint, Individual, Result, State, attempt_id, claim_of

LARGEST_RECORD = 16 << 20
LARGEST_FILE = 1 << 40
T = TypeVar("T")


class Damaged(Exception):  # noqa: N818 - becomes a quarantine or a DataError before a caller sees it
    """An individual's contents are wrong; `why` is a word for its name."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


class Missing(Damaged):
    """A file is missing."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Contents:
    """Reads the files of individuals; raises Damaged if they are wrong."""

    def __init__(self, files: Files, shards: Shards, experiment: str) -> None:
        self._files, self._shards, self._experiment = files, shards, experiment
        self._births = msgspec.json.Decoder(Birth)
        self._results = msgspec.json.Decoder(Result)

    def birth(self, individual: Individual) -> Birth:
        data = self._load(individual, names.BIRTH, LARGEST_RECORD)
        birth = _decoded(self._births, data, "dna", names.BIRTH)
        if birth.id != individual.id or birth.experiment != self._experiment or not _sensible(birth):
            raise Damaged("dna", f"{names.BIRTH} of {individual.id} belongs to another individual or experiment")
        return birth

    def result(self, individual: Individual) -> Result:
        """Return the result of the attempt that counts, checked against the name."""
        if individual.state not in (State.ALIVE, State.DEAD):
            raise ConcurrencyError(f"Individual {individual.id} has no result; choose again.")
        result = self._result(individual, individual.attempt)
        if individual.fitness is None or not names.same_fitness(result.fitness, individual.fitness):
            raise Damaged("result", f"the name of {individual.id} and its result disagree about the fitness")
        return result

    def _result(self, individual: Individual, attempt: str) -> Result:
        place = names.of_attempt(attempt, names.RESULT)
        result = _decoded(self._results, self._load(individual, place, LARGEST_RECORD), "result", place)
        good = result.id == individual.id and result.attempt == attempt and math.isfinite(result.fitness)
        if not (good and all(names.is_file(name) and names.is_hash(f.sha256) for name, f in result.files.items())):
            raise Damaged("result", f"{place} of {individual.id} is not a result of this attempt")
        return result

    def stored(self, individual: Individual, result: Result, name: str) -> bytes:
        data = self._load(individual, names.of_attempt(result.attempt, name), LARGEST_FILE)
        promised = result.files[name]
        if len(data) != promised.size or sha256(data) != promised.sha256:
            raise Damaged("files", f"{name} of {individual.id} does not match the hash in its result")
        return data

    def inherited(self, individual: Individual, number: int, promised: str) -> bytes:
        place = names.inherited_name(number)
        data = self._load(individual, place, LARGEST_FILE)
        if sha256(data) != promised:
            raise Damaged("inherit", f"{place} of {individual.id} does not match the hash of its parent's weights")
        return data

    def reason(self, individual: Individual) -> str:
        name = names.of_attempt(attempt_id(individual.claim, individual.owner), names.FAILURE)
        path = f"{self._shards.path(individual)}/{name}"
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._files.load(path, LARGEST_RECORD), type=str)
        return ""

    def complete_result(self, individual: Individual) -> Result | None:
        finished = [attempt for attempt, part in self._parts(individual) if part == names.RESULT]
        for attempt in sorted(finished, key=claim_of, reverse=True):
            try:
                result = self._result(individual, attempt)
                for name in result.files:
                    self.stored(individual, result, name)
                return result
            except Missing as missing:
                # The owner's files are not removed while it owns them, so the path must be outdated. Treating the
                # result as incomplete and writing it again might destroy one that was adopted meanwhile.
                if attempt == individual.attempt:
                    raise ConcurrencyError(f"Individual {individual.id} was taken over; choose again.") from missing
            except Damaged:
                continue
        return None

    def checkpoints(self, individual: Individual) -> list[tuple[int, str, str]]:
        """Return step, attempt and part of every checkpoint, the furthest first, without reading them."""
        parsed = ((names.parse_checkpoint(part), attempt, part) for attempt, part in self._parts(individual))
        return sorted(((found[0], attempt, part) for found, attempt, part in parsed if found), reverse=True)

    def checkpoint(self, individual: Individual) -> Checkpoint | None:
        """Return the furthest checkpoint whose bytes match the hash in its name."""
        for step, attempt, part in self.checkpoints(individual):
            parsed = names.parse_checkpoint(part)
            with contextlib.suppress(Damaged):
                data = self._load(individual, names.of_attempt(attempt, part), LARGEST_FILE)
                if parsed and sha256(data)[:32] == parsed[1]:
                    return Checkpoint(step=step, data=data)
        return None

    def _parts(self, individual: Individual) -> list[tuple[str, str]]:
        return [found for name in self.entries(individual) if (found := names.parse_of_attempt(name))]

    def entries(self, individual: Individual) -> list[str]:
        path = self._shards.path(individual)
        try:
            return self._files.list(path)
        except FileNotFoundError as error:
            raise ConcurrencyError(f"Individual {individual.id} was changed by another worker.") from error
        except NotADirectoryError as error:
            raise Damaged("contents", f"{path} is not a directory") from error
        except OSError as error:
            raise StorageError(f"{path} cannot be listed: {error}; try again later.") from error

    def _load(self, individual: Individual, place: str, limit: int) -> bytes:
        path = f"{self._shards.path(individual)}/{place}"
        for again in (False, True):
            try:
                return self._files.load(path, limit)
            except FileNotFoundError as error:
                # Usually another worker has changed the individual's state. The contents are wrong only if a listing
                # made after the failure still shows it in the same state and the file is missing after that listing.
                if not self._shards.present(individual):
                    message = f"Individual {individual.id} was changed by another worker; choose again."
                    raise ConcurrencyError(message) from error
            except OSError as error:
                if error.errno in NOT_A_FILE and not again:
                    raise Damaged("contents", f"{path} is not a regular file of plausible size") from error
                raise StorageError(f"{path} cannot be read: {error}; try again later.") from error
        raise Missing("contents", f"{path} is missing")


def _sensible(birth: Birth) -> bool:
    """Return whether its parents are other individuals and what it inherits is named by hashes."""
    others = all(names.is_id(parent) and parent != birth.id for parent in birth.parents)
    return others and all(map(names.is_hash, birth.inherits))


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes, why: str, place: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Damaged(why, f"{place} is not a valid record ({error})") from error
