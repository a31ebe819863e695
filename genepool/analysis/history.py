"""Everybody who ever lived in a population, kept up to date by looking again; nothing is read twice."""

from __future__ import annotations

import contextlib

import msgspec

from genepool.analysis.spending import Entry, Interval, spending
from genepool.dna import DNA, decode
from genepool.errors import ConcurrencyError, DataError, StorageError
from genepool.evaluation import Evaluation
from genepool.evolution.budget import Spending
from genepool.population import Birth, DirectoryView, Fossil, Individual, Result, State

UNTOLD = frozenset({State.STAGING, State.COLLECTED, State.QUARANTINED})
"""States of entries that are not, or no longer, individuals to tell of."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One individual."""

    individual: Individual
    birth: Birth
    result: Result | None = None

    @property
    def id(self) -> str:
        return self.individual.id

    @property
    def state(self) -> State:
        return self.individual.state

    @property
    def fitness(self) -> float | None:
        return None if self.result is None else self.result.fitness

    @property
    def accuracy(self) -> float | None:
        """On the validation images; where nobody told it apart from the fitness, that."""
        told = None if self.result is None else self.result.metrics.get("accuracy")
        return float(told) if isinstance(told, int | float) else self.fitness

    @property
    def evaluation(self) -> Evaluation:
        """What the training told; nothing but a fitness of 0 for one that was never finished."""
        if self.result is None:
            return Evaluation(fitness=0.0)
        try:
            return msgspec.convert({**self.result.metrics, "fitness": self.result.fitness}, Evaluation)
        except msgspec.ValidationError:  # from another release, or a stranger's
            return Evaluation(fitness=self.result.fitness)

    @property
    def dna(self) -> DNA:
        return decode(bytes(self.birth.dna))


class History:
    """The rows of an experiment by ID; `refresh` looks again."""

    def __init__(self, view: DirectoryView) -> None:
        self._view = view
        self._fossils = view.fossil_tail()
        self.rows: dict[str, Row] = {}

    def refresh(self) -> None:
        """Brings the rows up to date: the living from the population, those who went from the archives."""
        for individual in self._view.snapshot():
            if individual.state not in UNTOLD:
                # Whoever changes or goes while being read is met again at the next look, here or as a fossil.
                with contextlib.suppress(ConcurrencyError, DataError, StorageError):
                    self._see(individual)
        for fossil, individual in self._fossils.more():
            self._dig_up(fossil, individual)

    def _see(self, individual: Individual) -> None:
        known = self.rows.get(individual.id)
        if known is not None and known.individual == individual:
            return
        birth = known.birth if known else self._view.read_birth(individual)
        result = known.result if known else None
        if result is None and individual.state in (State.ALIVE, State.DEAD):
            result = self._view.read_result(individual)
        self.rows[individual.id] = Row(individual=individual, birth=birth, result=result)

    def _dig_up(self, fossil: Fossil, individual: Individual) -> None:
        self.rows[fossil.id] = Row(individual=individual, birth=fossil.birth, result=fossil.result)

    def finished(self) -> list[Row]:
        """Those that became alive, in the order in which they did."""
        done = [row for row in self.rows.values() if row.result is not None]
        return sorted(done, key=lambda row: (row.result.finished if row.result else 0.0, row.id))

    def results(self, since: float = 0.0) -> list[Result]:
        """What came of those that became alive, since a moment on the wall clock."""
        return [row.result for row in self.finished() if row.result is not None and row.result.finished >= since]

    def spending(self, *, also: Interval | None = None) -> Spending:
        """What they cost and reached, with the time of a run that goes on."""
        return spending((Entry.of(row.result) for row in self.rows.values() if row.result is not None), also=also)

    def best(self) -> Row | None:
        """The living individual of highest fitness; of several, the first that reached it."""
        living = [row for row in self.finished() if row.state is State.ALIVE]
        return max(living, key=lambda row: row.fitness or 0.0, default=None)
