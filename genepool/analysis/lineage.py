"""Lineages: the chain of mutations that led to an individual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from genepool.analysis.history import Row
from genepool.analysis.table import Table
from genepool.errors import SettingsError, shown

T = TypeVar("T")


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the chain; the keys of its JSON form are documented."""

    id: str
    mutations: tuple[str, ...]
    """The mutations that made it from its parent; none for the first."""
    second: str = ""
    """The ID of the second parent, if there are two."""
    fitness: float | None
    accuracy: float | None
    """The accuracy on the validation images."""
    learning_rate: float
    parameters: int
    state: str
    network: str
    """The architecture in one line."""


def chain(start: T, parent: Callable[[T], T | None]) -> list[T]:
    """`start` and its ancestors by first parents, earliest first up to a repeat: damaged records may form a cycle."""
    found: dict[T, None] = {}
    here: T | None = start
    while here is not None and here not in found:
        found[here] = None
        here = parent(here)
    return list(found)[::-1]


def ancestors(rows: Mapping[str, Row], identity: str) -> list[Row]:
    """The known ancestors of an individual, the earliest first, and the individual itself."""

    def parent(child: str) -> str | None:
        parents = rows[child].birth.parents
        return parents[0] if parents and parents[0] in rows else None

    return [rows[name] for name in chain(identity, parent)] if identity in rows else []


def ancestor_rows(table: Table, row: int) -> list[int]:
    """The same by row numbers of a table."""

    def parent(child: int) -> int | None:
        number: int = table.get(child, "parent")
        return number if number >= 0 else None

    return chain(row, parent)


def lineage(rows: Mapping[str, Row], identity: str) -> list[Ancestor]:
    """From the first network to this one, along first parents."""
    line = ancestors(rows, find(rows, identity).id)
    return [*before_migration(line[0]), *(ancestor(row) for row in line)]


def before_migration(row: Row) -> list[Ancestor]:
    """The lineage that an individual has from another population."""
    try:
        before = msgspec.convert(row.birth.origin.get("lineage", []), list[Ancestor])
    except msgspec.ValidationError:  # written by another release
        return []
    return [msgspec.structs.replace(link, state="elsewhere") for link in before]


def ancestor(row: Row) -> Ancestor:
    """One individual as a link of the chain."""
    dna = row.dna
    return Ancestor(
        id=row.id,
        mutations=row.birth.mutations,
        second=row.birth.parents[1] if len(row.birth.parents) > 1 else "",
        fitness=row.fitness,
        accuracy=row.accuracy,
        learning_rate=dna.learning_rate,
        parameters=row.evaluation.parameters,
        state=row.state.name.lower(),
        network=dna.in_a_line(),
    )


def find(rows: Mapping[str, Row], identity: str) -> Row:
    """The individual with that ID, or with the only ID that starts or ends with it."""
    if identity in rows:
        return rows[identity]
    alike = [row for name, row in rows.items() if identity and (name.startswith(identity) or name.endswith(identity))]
    if len(alike) == 1:
        return alike[0]
    fault = "is not in this experiment" if not alike else f"matches {len(alike)} individuals; write more of it"
    raise SettingsError(f"The individual '{shown(identity)}' {fault}.")
