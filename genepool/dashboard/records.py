"""What a row of the table needs of a record, decoded without building the rest, mostly losses and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from genepool.population import Birth, Individual, Result, StoredFile

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
