"""The complete records of all individuals that ever lived in an experiment."""

from __future__ import annotations

from typing import cast

import msgspec

from genepool.analysis.reader import Reader, Seen
from genepool.analysis.spending import Interval, owners, spending, unfinished_flops
from genepool.analysis.table import Table
from genepool.dna import DNA, decode
from genepool.evaluation import Evaluation
from genepool.evolution import Spending
from genepool.population import Birth, DirectoryView, Fossil, Individual, Result, State


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one individual."""

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
        """The accuracy on the validation images; the fitness if the evaluator did not report an accuracy."""
        reported = None if self.result is None else self.result.metrics.get("accuracy")
        return float(reported) if isinstance(reported, int | float) else self.fitness

    @property
    def evaluation(self) -> Evaluation:
        """The result of the training; a fitness of 0 and nothing else if it was never finished."""
        if self.result is None:
            return Evaluation(fitness=0.0)
        try:
            return msgspec.convert({**self.result.metrics, "fitness": self.result.fitness}, Evaluation)
        except msgspec.ValidationError:  # written by another release or another evaluator
            return Evaluation(fitness=self.result.fitness)

    @property
    def dna(self) -> DNA:
        return decode(bytes(self.birth.dna))


class History:
    """The rows of an experiment by ID; `refresh` brings them up to date."""

    def __init__(self, view: DirectoryView) -> None:
        self._view, self._reader = view, Reader(view, fossil=Fossil)
        self._unfinished = 0.0
        self.rows: dict[str, Row] = {}
        self.table = Table()

    def refresh(self) -> None:
        """Read what is new since the last call."""
        for seen in self._reader.changes():
            self._take(seen)
        self._unfinished = unfinished_flops(self.table, self._view.executed(), owners(self._reader.sweep))

    def _take(self, seen: Seen) -> None:
        individual = seen.individual
        self.table.take(seen)
        if individual.state is State.QUARANTINED:  # damaged, and so no longer an individual to count on
            self.rows.pop(individual.id, None)
            return
        known = self.rows.get(individual.id)
        birth = cast(Birth, seen.birth or (known and known.birth))
        result = cast("Result | None", seen.result or (known and known.result))
        self.rows[individual.id] = Row(individual=individual, birth=birth, result=result)

    def finished(self) -> list[Row]:
        """The individuals that became alive, in that order."""
        ids = (self.table.ids[row] for row in self.table.finished_rows())
        return [self.rows[identity] for identity in ids if identity in self.rows]

    def records(self) -> list[Row]:
        """The individuals whose fitness was higher than that of all before."""
        progress = self.table.progress()
        ids = (self.table.ids[row] for row in progress.rows[progress.is_record])
        return [self.rows[identity] for identity in ids if identity in self.rows]

    def spending(self, *, also: Interval | None = None) -> Spending:
        """What they spent and reached, with the time of a run in progress."""
        return spending(self.table, also, self._unfinished)

    def best(self) -> Row | None:
        """The living individual of highest fitness; of several, the first that reached it."""
        row = self.table.best()
        return None if row is None else self.rows[self.table.ids[row]]
