"""Every individual that is or was in a population, with its birth and result."""

from __future__ import annotations

from collections.abc import Iterator

from genepool.analysis import Row
from genepool.errors import ConcurrencyError
from genepool.population import PopulationView, State


def records(view: PopulationView) -> Iterator[Row]:
    """Yield the individuals in the population first, then the fossils.

    An individual that changes while it is read is looked for again. Fossils are read last, so none is missed between.
    """
    seen: set[str] = set()
    for _ in range(3):
        for individual in view.snapshot():
            if individual.id in seen or individual.state in (State.STAGING, State.QUARANTINED):
                continue
            try:
                finished = individual.state in (State.ALIVE, State.DEAD)
                result = view.read_result(individual) if finished else None
                row = Row(individual=individual, birth=view.read_birth(individual), result=result)
            except ConcurrencyError:
                continue
            seen.add(individual.id)
            yield row
    for fossil in view.fossils():
        if fossil.id not in seen:
            yield Row(individual=fossil.individual, birth=fossil.birth, result=fossil.result)
