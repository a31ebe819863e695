"""Migration: copies of the best individuals of one population in another, with weights, lineage and a new fitness."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from genepool import data as images
from genepool.analysis import Row, lineage
from genepool.errors import DataError, SettingsError, shown
from genepool.evaluation import Evaluation, TrainingRequest
from genepool.experiment.experiment import Experiment
from genepool.population import WEIGHTS, Birth, DirectoryPopulation, Files, State


class Migrant(NamedTuple):
    former: str  # its ID in the population that it came from
    id: str
    home_fitness: float
    fitness: float  # its fitness on the validation images of its new population


def migrate(home: Experiment, abroad: Experiment, best: int, data_dir: Path | None, device: str) -> list[Migrant]:
    """Put copies of the best living individuals into another population, which may be evolving. They are created and
    finished like children, so workers need not be informed. Their fitness is measured again."""
    if home.manifest.uuid == abroad.manifest.uuid:
        raise SettingsError(f"'{shown(home.path)}' and '{shown(abroad.path)}' are the same experiment; give two.")
    data = _common_data(home, abroad, data_dir)
    history = home.history()
    alive = [row for row in history.finished() if row.state is State.ALIVE]
    chosen = sorted(alive, key=lambda row: row.fitness or 0.0, reverse=True)[:best]
    travellers = [(row, weights) for row in chosen if (weights := home.view().weights(row.individual)) is not None]
    if not travellers:
        raise DataError(f"No individual in '{shown(home.path)}' is alive and has weights yet; let it run for a while.")
    measured = [(row, weights, _measure(abroad, data, row, weights, device)) for row, weights in travellers]
    population = DirectoryPopulation.open(abroad.path, files=Files(durability=abroad.settings().population.durability))
    try:
        return [
            _arrive(population, _birth(home, abroad, row, history.rows), row, weights, evaluation)
            for row, weights, evaluation in measured
        ]
    finally:
        population.close()


def _common_data(home: Experiment, abroad: Experiment, data_dir: Path | None) -> images.Dataset:
    here, there = (experiment.prepared(experiment.source(data_dir)) for experiment in (home, abroad))
    for noun, one, other in (
        ("images of", "x".join(map(str, here.image)), "x".join(map(str, there.image))),
        ("classes", ", ".join(here.classes), ", ".join(there.classes)),
    ):
        if one != other:
            raise DataError(
                f"'{shown(home.path)}' has {noun} {shown(one)}, but '{shown(abroad.path)}' has {shown(other)}; "
                "networks can only migrate if these are the same."
            )
    return there


def _measure(abroad: Experiment, data: images.Dataset, row: Row, weights: bytes, device: str) -> Evaluation:
    """Return the fitness of the weights as they are: a training without steps."""
    from genepool.nn import TorchEvaluator, choose_device

    settings = abroad.settings()
    untrained = msgspec.structs.replace(settings.training, steps=0, inheritance="matching")
    evaluator = TorchEvaluator(data, untrained, settings.limits, choose_device(device, 0), settings.objective)
    found = evaluator.evaluate(TrainingRequest(row.dna, seed=0, inherited=(weights,))).evaluation
    if found.reason is not None:
        raise DataError(f"Individual {row.id} cannot migrate: {found.reason}")
    if found.fresh:
        raise DataError(f"The weights of individual {row.id} do not fit its network; run `genepool check`.")
    # The training time of its children is estimated from the time of its steps.
    return msgspec.structs.replace(found, step_seconds=row.evaluation.step_seconds)


def _birth(home: Experiment, abroad: Experiment, row: Row, rows: dict[str, Row]) -> Birth:
    return Birth(
        dna=row.birth.dna,
        mutations=("migration",),
        mutation_seed=0,
        training_seed=row.birth.training_seed,
        settings_version=abroad.version(),
        origin={
            "experiment": home.manifest.uuid,
            "name": home.path.resolve().name,
            "id": row.id,
            "lineage": msgspec.to_builtins(lineage(rows, row.id)),
        },
    )


def _arrive(population: DirectoryPopulation, birth: Birth, row: Row, weights: bytes, evaluation: Evaluation) -> Migrant:
    metrics = msgspec.to_builtins(evaluation)
    fitness = metrics.pop("fitness")
    child = population.create(birth)
    population.finish(child, fitness=fitness, metrics=metrics, files={WEIGHTS: weights})
    return Migrant(row.id, child.id, row.fitness or 0.0, fitness)
