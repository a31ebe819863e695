"""Rebuilds an individual by repeating its complete lineage, from the first individual on, with the recorded seeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from genepool.analysis import History, Row, find
from genepool.dna import DNA, Shape, initial, topological_order
from genepool.errors import DataError, shown
from genepool.evaluation import Evaluation, Evaluators, Trained, TrainingBudget, TrainingRequest
from genepool.evolution import UNCHANGED, Founder, mutated, recombined, training_budget_of
from genepool.experiment.best import measure_test_accuracy, remember_test, weights_of
from genepool.experiment.experiment import Experiment
from genepool.experiment.versions import lacking_mutations
from genepool.mutations import ADOPTION, FUSION, MIXTURE, MUTATIONS
from genepool.settings import Settings

if TYPE_CHECKING:
    from genepool.data import Source

FORMS = {MIXTURE: "weights", FUSION: "fusion", ADOPTION: "probabilities"}
"""The value of the setting `recombination` for each name that birth records contain."""


class Repeated(NamedTuple):
    row: Row
    dna: DNA
    trained: Trained

    @property
    def agrees(self) -> bool:
        """Whether the same network reached the same accuracy; the fitness may also depend on measured times."""
        return self.dna == self.row.dna and self.accuracy == self.row.accuracy

    @property
    def accuracy(self) -> float:
        again = self.trained.evaluation
        return again.fitness if again.accuracy is None else again.accuracy


def replay(
    experiment: Experiment, history: History, identity: str, evaluator: Evaluators, image: Shape | None = None
) -> Iterator[Repeated]:
    """Yield every ancestor, parents first, each mutated and trained again from its repeated parents. The shape of the
    images is needed if ancestors were fused or widths are rounded."""
    done: dict[str, Repeated] = {}
    rows = _ancestry(history, identity)
    for number, row in enumerate(rows):
        done[row.id] = _repeat(row, [done[parent] for parent in row.birth.parents], experiment, evaluator, image)
        yield done[row.id]
        needed = {parent for later in rows[number + 1 :] for parent in later.birth.parents}
        done = {known: repeated for known, repeated in done.items() if known in needed}


def measure_repeated(experiment: Experiment, link: Repeated, source: Source, device: str) -> float | None:
    """Test an individual with its own weights or, if they are gone, with repeated ones that agree with the record. The
    test accuracy is kept for reports; it is None if there are no such weights."""
    weights = weights_of(experiment, link.row)
    if weights is None and link.agrees:
        weights = link.trained.weights
    if weights is None:
        return None
    accuracy = measure_test_accuracy(experiment, link.row, weights, source, device)
    remember_test(experiment, link.row.id, accuracy)
    return accuracy


def _repeat(
    row: Row, parents: list[Repeated], experiment: Experiment, evaluator: Evaluators, image: Shape | None
) -> Repeated:
    birth, founder = row.birth, experiment.founder()
    settings = experiment.settings(birth.settings_version)
    dna = _dna(row, [parent.dna for parent in parents], settings, founder, image)
    inherited = _inherited(row, [parent.trained.weights for parent in parents], founder)
    recombination = birth.mutations[0] if len(inherited) > 1 else ""
    budget = _as_recorded(training_budget_of(birth), row.evaluation)
    request = TrainingRequest(dna, birth.training_seed, inherited, recombination=recombination, budget=budget)
    return Repeated(row, dna, evaluator(birth.settings_version).evaluate(request))


def _as_recorded(budget: TrainingBudget, evaluation: Evaluation) -> TrainingBudget:
    budget = replace(budget, precision=evaluation.precision, slices=evaluation.slices)
    if budget.race is not None:
        budget = replace(budget, race=replace(budget.race, verdict=evaluation.raced))
    return replace(budget, step_decisions=evaluation.step_decisions) if budget.seconds or budget.race else budget


def _dna(row: Row, parents: list[DNA], settings: Settings, founder: Founder | None, image: Shape | None) -> DNA:
    names, seed = row.birth.mutations, row.birth.mutation_seed
    if not parents:
        return founder.dna if founder else initial(settings.breeding.learning_rate, settings.breeding.body_rate)
    if not seed and all(name in UNCHANGED for name in names):  # a deliberate copy, not a mutation
        return parents[0]
    _require(row, settings)
    breeding = settings.breeding.without(row.birth.lacking)
    # During an escape, the number of mutations is not the one in the settings, so the record decides.
    if len(parents) > 1:
        breeding = replace(breeding, mutations=len(names) - 1, recombination=FORMS[names[0]])
        return recombined((parents[0], parents[1]), breeding, seed, image).dna
    return mutated(parents[0], replace(breeding, mutations=len(names)), seed, image).dna


def _require(row: Row, settings: Settings) -> None:
    """Check that every mutation that took part in the draw is available, even if it had no effect."""
    for name in (*row.birth.mutations, *lacking_mutations(settings.breeding)):
        if name not in FORMS and name not in MUTATIONS and name not in row.birth.lacking:
            raise DataError(
                f"Individual {row.id} was made when the mutation '{shown(name)}' had odds, which is not known here; "
                "give the plugin that it comes from with --plugin."
            )


def _inherited(row: Row, parents: list[bytes | None], founder: Founder | None) -> tuple[bytes, ...]:
    """Return the repeated parents' weights, if the original parents passed on theirs."""
    if not parents:
        return (founder.weights,) if founder and founder.weights is not None else ()
    return tuple(weights for weights in parents[: len(row.birth.inherits)] if weights is not None)


def _ancestry(history: History, identity: str) -> list[Row]:
    """Return the individual and all its ancestors through all parents; parents come before their children."""
    found: dict[str, Row] = {}
    waiting = [find(history.rows, identity)]
    while waiting:
        row = waiting.pop()
        found[row.id] = row
        if row.birth.origin:
            raise DataError(
                f"Individual {row.id} came from another population, '{shown(str(row.birth.origin.get('name')))}', and "
                f"cannot be replayed here; replay {shown(str(row.birth.origin.get('id')))} there."
            )
        for parent in row.birth.parents:
            if parent not in history.rows:
                raise DataError(f"The record of individual {parent} is missing; run `genepool check` for details.")
            if parent not in found:
                waiting.append(history.rows[parent])
    order = topological_order(tuple(found), tuple((p, row.id) for row in found.values() for p in row.birth.parents))
    return [found[name] for name in order]
