"""Everybody who ever lived in an experiment, as columns of numbers: some 300 bytes a row, whatever their networks are.

A row keeps its number. Whatever changes gets the next number of a sequence, so that somebody who knows the state of
things up to one number is told only what came after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.population import Birth, Individual, Result, StoredFile

NAN = float("nan")
_FIRST_ROOM = 1024
_MOST_NAMES = 4096

_COLUMNS: dict[str, tuple[type[np.generic], float]] = {
    "state": (np.uint8, 0),  # the letter of population.State
    "epoch": (np.uint32, 0),
    "born": (np.float64, NAN),
    "finished": (np.float64, NAN),
    "fitness": (np.float64, NAN),
    "seconds": (np.float64, 0),
    "stepping": (np.float64, 0),
    "flops": (np.float64, 0),
    "parameters": (np.float64, 0),
    "learning_rate": (np.float64, NAN),
    "depth": (np.int32, 0),
    "parent": (np.int32, -1),
    "mutation": (np.uint16, 0),
    "worker": (np.uint16, 0),
    "version": (np.uint32, 0),
    "bytes": (np.int64, 0),
    "log": (np.int32, -1),
    "start": (np.int64, 0),
    "length": (np.int32, 0),
    "sequence": (np.int64, 0),
}


class Names:
    """Texts by number; the first is the empty one. Beyond a few thousand all others are one."""

    def __init__(self) -> None:
        self.texts = [""]
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        if known is None:
            if len(self.texts) > _MOST_NAMES:
                return self.number("others")
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text[:200])
        return known


class Table:
    """The rows by number and by ID."""

    def __init__(self) -> None:
        self._room = _FIRST_ROOM
        self._columns = {name: np.full(self._room, empty, kind) for name, (kind, empty) in _COLUMNS.items()}
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self.sequence = 0

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[Any]:
        """One column of all rows; a view that the next row may leave behind."""
        return self._columns[name][: len(self.ids)]

    def get(self, row: int, name: str) -> Any:
        """One value."""
        return self._columns[name][row].item()

    def add(self, identity: str) -> int:
        """A new row."""
        row = len(self.ids)
        if row == self._room:
            self._grow()
        self.ids.append(identity)
        self.rows[identity] = row
        return row

    def _grow(self) -> None:
        for name, (kind, empty) in _COLUMNS.items():
            more = np.full(2 * self._room, empty, kind)
            more[: self._room] = self._columns[name]
            self._columns[name] = more
        self._room *= 2

    def put(self, row: int, **values: float) -> None:
        """Changes a row."""
        self.sequence += 1
        for name, value in values.items():
            self._columns[name][row] = value
        self._columns["sequence"][row] = self.sequence

    def changed_since(self, sequence: int, most: int) -> NDArray[np.int64]:
        """The rows that were changed after that, those first that were changed first, and at most so many of them."""
        changes = self.column("sequence")
        (rows,) = np.nonzero(changes > sequence)
        return rows[np.argsort(changes[rows], kind="stable")][:most]

    def finished_rows(self) -> NDArray[np.int64]:
        """Who became alive, in that order; who did within the same thousandth of a second, by ID, as histories do."""
        finished = self.column("finished")
        (rows,) = np.nonzero(~np.isnan(self.column("fitness")))
        rows = rows[np.argsort(finished[rows], kind="stable")]
        same = np.diff(finished[rows], prepend=NAN, append=NAN) == 0
        tied = same[1:] | same[:-1]  # few: only they are looked at one by one
        rows[tied] = sorted(rows[tied], key=lambda row: (finished[row], self.ids[row]))
        return rows


SEVERAL = "several"
"""In the place of a mutation's name, where there were more than one."""


class _Edge(msgspec.Struct):
    type: str


class _DNA(msgspec.Struct):
    learning_rate: float
    edges: list[_Edge]


class Metrics(msgspec.Struct):
    """Of a result."""

    parameters: float = 0
    flops: float = 0
    seconds: float = 0
    stepping: float = 0


class ShortBirth(msgspec.Struct):
    """Of a birth record."""

    id: str
    dna: msgspec.Raw
    parents: tuple[str, ...] = ()
    mutations: tuple[str, ...] = ()
    settings_version: int = 1
    created: float = 0.0


class ShortResult(msgspec.Struct):
    """Of a result."""

    attempt: str
    fitness: float
    metrics: Metrics
    finished: float
    files: dict[str, StoredFile] = {}


class ShortFossil(msgspec.Struct):
    """Of a line in an archive."""

    name: str
    birth: ShortBirth
    result: ShortResult | None = None


fossils = msgspec.json.Decoder(ShortFossil)
_dnas = msgspec.json.Decoder(_DNA)


def of_birth(birth: Birth | ShortBirth) -> dict[str, float]:
    """The numbers of a birth."""
    dna = _dnas.decode(birth.dna)
    return {
        "born": birth.created,
        "version": min(max(birth.settings_version, 0), 2**31),
        "learning_rate": float(f"{dna.learning_rate:.6g}"),
        "depth": sum(edge.type == "conv" for edge in dna.edges),
    }


def mutation_of(birth: Birth | ShortBirth) -> str:
    """In a word."""
    return SEVERAL if len(birth.mutations) > 1 else "".join(birth.mutations)


def of_result(result: Result | ShortResult) -> dict[str, float]:
    """The numbers of a result."""
    metrics = result.metrics if isinstance(result.metrics, Metrics) else _metrics(result.metrics)
    return {
        "fitness": result.fitness,
        "finished": result.finished,
        "seconds": metrics.seconds,
        "stepping": metrics.stepping,
        "flops": metrics.flops,
        "parameters": metrics.parameters,
        "bytes": sum(min(max(file.size, 0), 2**50) for file in result.files.values()),
    }


def _metrics(values: Mapping[str, Any]) -> Metrics:
    return msgspec.convert(dict(values), Metrics, strict=False)


def worker_of(individual: Individual, result: Result | ShortResult | None) -> str:
    """Who trained it, or trains it."""
    return individual.owner if result is None else result.attempt.partition("-")[2]
