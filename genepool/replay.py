"""Rebuilds an individual by repeating its whole lineage from the trivial network on, with the recorded seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from genepool.analysis import History, Row
from genepool.analysis.lineage import find
from genepool.dna import DNA, initial
from genepool.errors import DataError
from genepool.evaluation import Evaluation, Evaluator, Plan, Trained
from genepool.evolution.reproduction import COPY, mutated, plan_of
from genepool.experiment import Experiment, breeding_of


class Repeated(NamedTuple):
    """One link of the chain, done again."""

    row: Row
    dna: DNA
    trained: Trained

    @property
    def agrees(self) -> bool:
        """Whether the same network reached the same accuracy; fitness follows from it, but for measured times."""
        return self.dna == self.row.dna and self.accuracy == self.row.accuracy

    @property
    def accuracy(self) -> float:
        """Of this time."""
        again = self.trained.evaluation
        return again.fitness if again.accuracy is None else again.accuracy


def replay(
    experiment: Experiment, history: History, identity: str, evaluator: Callable[[int], Evaluator]
) -> Iterator[Repeated]:
    """Every ancestor from the first on, each mutated and trained again from its repeated parent."""
    weights: bytes | None = None
    dna: DNA | None = None
    for row in _chain(history, identity):
        settings = experiment.settings(row.birth.settings_version)
        if dna is None:
            dna = initial(settings.learning_rate)
        elif any(name != COPY for name in row.birth.mutations):
            dna, _ = mutated(dna, breeding_of(settings), row.birth.mutation_seed)
        plan = _as_recorded(plan_of(row.birth), row.evaluation)
        trained = evaluator(row.birth.settings_version).evaluate(
            dna, seed=row.birth.training_seed, inherited=weights, plan=plan
        )
        weights = trained.weights
        yield Repeated(row, dna, trained)


def _as_recorded(plan: Plan, evaluation: Evaluation) -> Plan:
    """With as many steps as there was time for then, and what was decided on the way."""
    if plan.race is not None:
        plan = msgspec.structs.replace(plan, race=msgspec.structs.replace(plan.race, verdict=evaluation.raced))
    return msgspec.structs.replace(plan, turns=evaluation.turns) if plan.seconds or plan.race else plan


def _chain(history: History, identity: str) -> list[Row]:
    chain = [find(history.rows, identity)]
    while chain[-1].birth.parents:
        parent = chain[-1].birth.parents[0]
        if parent not in history.rows:
            raise DataError(f"The record of individual {parent} is missing; `genepool check` tells more.")
        chain.append(history.rows[parent])
    return chain[::-1]
