"""The chain of mutations that led to an individual, and what was done to the population meanwhile.

The chain of mutations that led to an individual.

What was done to a population while it evolved, on the clock: for the margin of a figure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from genepool.analysis.history import Row
from genepool.analysis.spending import Entry, spending
from genepool.errors import SettingsError, shown
from genepool.evolution.escape import Escape
from genepool.population import Result

MIGRATION = "migration"
"""How an individual came that was born in another population."""


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the chain; the keys of its JSON form are documented and stay."""

    id: str
    mutations: tuple[str, ...]
    """What made it out of the one before; none for the first."""
    second: str = ""
    """The ID of the second parent, where there are two."""
    fitness: float | None
    accuracy: float | None
    """On the validation images; the fitness, unless the objective says otherwise."""
    learning_rate: float
    parameters: int
    state: str
    network: str
    """The architecture in a line."""


def lineage(rows: Mapping[str, Row], identity: str) -> list[Ancestor]:
    """From the trivial individual to this one. Of two parents the first is followed."""
    chain: list[Row] = []
    row = find(rows, identity)
    while True:
        chain.append(row)
        parents = row.birth.parents
        if not parents or parents[0] not in rows:
            break
        row = rows[parents[0]]
    return [*_abroad(chain[-1]), *(ancestor(row) for row in reversed(chain))]


def _abroad(row: Row) -> list[Ancestor]:
    """The lineage that a migrant brought along."""
    try:
        before = msgspec.convert(row.birth.origin.get("lineage", []), list[Ancestor])
    except msgspec.ValidationError:  # from another release
        return []
    return [msgspec.structs.replace(link, state="elsewhere") for link in before]


def ancestor(row: Row) -> Ancestor:
    """What is told of one individual."""
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
    """The individual of that ID, or of the one ID that begins or ends so."""
    if identity in rows:
        return rows[identity]
    alike = [row for name, row in rows.items() if identity and (name.startswith(identity) or name.endswith(identity))]
    if len(alike) == 1:
        return alike[0]
    fault = "is not in this experiment" if not alike else f"fits {len(alike)} individuals; write more of it"
    raise SettingsError(f"The individual '{shown(identity)}' {fault}.")


class Mark(NamedTuple):
    """Something that happened."""

    time: float
    """On the wall clock."""
    label: str


class Change(NamedTuple):
    """A version of the settings as it came into force; those that were no interventions have no label."""

    when: float
    label: str
    escape: Escape
    mutations: int
    """When no escape lasts."""


def marks(changes: Sequence[Change], results: Sequence[Result]) -> list[Mark]:
    """The interventions, and the ends of those that ended by themselves, in order."""
    found = [Mark(change.when, change.label) for change in changes if change.label]
    phases = [change for change in changes if "mutations" in change.label]
    for number, phase in enumerate(phases, start=1):
        end = _end(phase.escape, results)
        if end is not None and all(end < following.when for following in phases[number:]):
            found.append(Mark(end, f"{phase.mutations} mutation{'s' if phase.mutations > 1 else ''} again"))
    return sorted(found)


def _end(escape: Escape, results: Sequence[Result]) -> float | None:
    """When the individual became alive with which the phase was over."""
    entries = sorted(Entry.of(result) for result in results)
    needed = bisect_left(range(len(entries) + 1), True, key=lambda n: not escape.lasts(spending(entries[:n])))
    return entries[needed - 1].finished if 0 < needed <= len(entries) else None
