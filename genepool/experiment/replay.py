"""Rebuilds an individual by repeating its whole lineage from the trivial network on, with the recorded seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from genepool.analysis import History, Row
from genepool.analysis.lineage import find
from genepool.dna import DNA, Shape, initial
from genepool.dna.topology import topological_order
from genepool.errors import DataError, shown
from genepool.evaluation import Evaluation, Evaluator, Plan, Second, Trained
from genepool.evolution.reproduction import UNCHANGED, Founder, mutated, plan_of, recombined
from genepool.experiment import Experiment, breeding_of, lacking_mutations
from genepool.mutations import MUTATIONS
from genepool.mutations.recombination import ADOPTION, FUSION, MIXTURE
from genepool.population import Birth
from genepool.settings import Settings

FORMS = {MIXTURE: "weights", FUSION: "fusion", ADOPTION: "probabilities"}
"""The setting by what stands in a birth record."""


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
    experiment: Experiment,
    history: History,
    identity: str,
    evaluator: Callable[[int], Evaluator],
    image: Shape | None = None,
) -> Iterator[Repeated]:
    """Every ancestor from the first on, each mutated and trained again from its repeated parent, or parents.

    The images' shape is needed where ancestors were fused, or widths go in steps.
    """
    done: dict[str, Repeated] = {}
    rows = _ancestry(history, identity)
    for number, row in enumerate(rows):
        parents = [done[parent] for parent in row.birth.parents]
        done[row.id] = _repeat(row, parents, experiment, evaluator, image)
        yield done[row.id]
        needed = {parent for later in rows[number + 1 :] for parent in later.birth.parents}
        done = {known: repeated for known, repeated in done.items() if known in needed}


def _repeat(
    row: Row,
    parents: list[Repeated],
    experiment: Experiment,
    evaluator: Callable[[int], Evaluator],
    image: Shape | None,
) -> Repeated:
    settings, founder = experiment.settings(row.birth.settings_version), experiment.founder()
    dna = _dna(row, [parent.dna for parent in parents], settings, founder, image)
    plan = _as_recorded(plan_of(row.birth), row.evaluation)
    inherited, second = _heritage(row.birth, [parent.trained.weights for parent in parents], founder)
    trained = evaluator(row.birth.settings_version).evaluate(
        dna, seed=row.birth.training_seed, inherited=inherited, plan=plan, second=second
    )
    return Repeated(row, dna, trained)


def _as_recorded(plan: Plan, evaluation: Evaluation) -> Plan:
    """With as many steps as there was time for then, what was decided on the way, and the same arithmetic."""
    plan = msgspec.structs.replace(plan, precision=evaluation.precision)
    if plan.race is not None:
        plan = msgspec.structs.replace(plan, race=msgspec.structs.replace(plan.race, verdict=evaluation.raced))
    return msgspec.structs.replace(plan, turns=evaluation.turns) if plan.seconds or plan.race else plan


def _dna(row: Row, parents: list[DNA], settings: Settings, founder: Founder | None, image: Shape | None) -> DNA:
    names, seed = row.birth.mutations, row.birth.mutation_seed
    if not parents:
        return founder.dna if founder else initial(settings.learning_rate)
    if not seed and all(name in UNCHANGED for name in names):  # meant, not drawn
        return parents[0]
    _require(row, settings)
    breeding = breeding_of(settings, row.birth.lacking)
    if len(parents) > 1:
        # The record itself tells the form and, during an escape, another number of mutations than the settings do.
        breeding = msgspec.structs.replace(breeding, mutations=len(names) - 1, recombination=FORMS[names[0]])
        return recombined((parents[0], parents[1]), breeding, seed, image)[0]
    # As many as there were: during an escape that is not the settings' number.
    return mutated(parents[0], msgspec.structs.replace(breeding, mutations=len(names)), seed, image)[0]


def _require(row: Row, settings: Settings) -> None:
    """Every mutation that took part in the draw must be here, even if it could not act."""
    names = [name for name in row.birth.mutations if name not in FORMS]
    for name in (*names, *lacking_mutations(settings)):
        if name not in MUTATIONS and name not in row.birth.lacking:
            raise DataError(
                f"Individual {row.id} was made when the mutation '{shown(name)}' had odds, which is not known here; "
                "give the plugin that it comes from with --plugin."
            )


def _heritage(birth: Birth, parents: list[bytes | None], founder: Founder | None) -> tuple[bytes | None, Second | None]:
    """What was linked in then, of what the repeated parents have now."""
    if not parents:
        return founder.weights if founder else None, None
    inherited = parents[0] if birth.inherits else None
    weights = parents[1] if len(birth.inherits) > 1 else None
    return inherited, Second(birth.mutations[0], weights) if weights is not None else None


def _ancestry(history: History, identity: str) -> list[Row]:
    """The individual and all its ancestors, by both parents where there are two; parents come first."""
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
                raise DataError(f"The record of individual {parent} is missing; `genepool check` tells more.")
            if parent not in found:
                waiting.append(history.rows[parent])
    order = topological_order(tuple(found), tuple((p, row.id) for row in found.values() for p in row.birth.parents))
    return [found[name] for name in order]
