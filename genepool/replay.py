"""Rebuilds an individual by repeating its whole lineage from the trivial network on, with the recorded seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from genepool.analysis import History, Row
from genepool.analysis.lineage import find
from genepool.dna import DNA, initial
from genepool.errors import DataError, shown
from genepool.evaluation import Evaluator, Trained
from genepool.evolution.reproduction import COPY, mutated, plan_of
from genepool.experiment import Experiment, breeding_of, lacking_mutations
from genepool.mutations import MUTATIONS
from genepool.settings import Settings


class Repeated(NamedTuple):
    """One link of the chain, done again."""

    row: Row
    dna: DNA
    trained: Trained

    @property
    def agrees(self) -> bool:
        """Whether the same network reached the same fitness."""
        return self.dna == self.row.dna and self.trained.evaluation.fitness == self.row.fitness


def replay(
    experiment: Experiment, history: History, identity: str, evaluator: Callable[[int], Evaluator]
) -> Iterator[Repeated]:
    """Every ancestor from the first on, each mutated and trained again from its repeated parent."""
    founder = experiment.founder()
    weights = founder.weights if founder else None
    dna: DNA | None = None
    for row in _chain(history, identity):
        settings = experiment.settings(row.birth.settings_version)
        if dna is None:
            dna = founder.dna if founder else initial(settings.learning_rate)
        elif any(name != COPY for name in row.birth.mutations):
            _require(row, settings)
            dna, _ = mutated(dna, breeding_of(settings, row.birth.lacking), row.birth.mutation_seed)
        plan = plan_of(row.birth)
        if plan.seconds:  # as many steps as there was time for then
            plan = msgspec.structs.replace(plan, turns=row.evaluation.turns)
        trained = evaluator(row.birth.settings_version).evaluate(
            dna, seed=row.birth.training_seed, inherited=weights, plan=plan
        )
        weights = trained.weights
        yield Repeated(row, dna, trained)


def _require(row: Row, settings: Settings) -> None:
    """Every mutation that took part in the draw must be here, even if it could not act."""
    for name in (*row.birth.mutations, *lacking_mutations(settings)):
        if name not in MUTATIONS and name not in row.birth.lacking:
            raise DataError(
                f"Individual {row.id} was made when the mutation '{shown(name)}' had odds, which is not known here; "
                "give the plugin that it comes from with --plugin."
            )


def _chain(history: History, identity: str) -> list[Row]:
    chain = [find(history.rows, identity)]
    while chain[-1].birth.parents:
        parent = chain[-1].birth.parents[0]
        if parent not in history.rows:
            raise DataError(f"The record of individual {parent} is missing; `genepool check` tells more.")
        chain.append(history.rows[parent])
    return chain[::-1]
