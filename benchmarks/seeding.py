"""Fills an experiment with a population of any size in seconds: valid directories, written in bulk.

The same seed gives the same names, so that system calls recorded in one population can be replayed in a second one.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec

from genepool.dna import DNA, encode, initial
from genepool.experiment import Experiment
from genepool.mutations import apply
from genepool.population import Birth, Individual, Result, State
from genepool.population.directory import names
from genepool.population.directory.writer import stored_files
from genepool.settings import Settings, changed

WEIGHTS = Random(0).randbytes(10_000)
VERTICES = 10
SIZE_KEEPING = (
    "alter-learning-rate",
    "identity",
    "reset-weights",
    "alter-stride",
    "alter-number-of-channels",
    "filter-size",
)
"""The paper's mutations that leave the number of vertices and edges as it is."""
SHARED_BY = 100
"""Individuals whose weights are one file, which saves gigabytes."""


def ancestor() -> DNA:
    """A network of ten vertices with two skips."""
    dna, rng = initial(), Random(0)
    while len(dna.vertices) < VERTICES:
        dna = apply("insert-convolution", dna, rng)
    return apply("add-skip", apply("add-skip", dna, rng), rng)


def settings_for(size: int) -> Settings:
    """Settings under which evolution continues for ever and networks neither grow nor shrink."""
    return changed(
        Settings(),
        {
            "data.source": "fashion-mini",
            "population.size": size,
            "population.set_point": "damped",
            "breeding.odds": dict.fromkeys(SIZE_KEEPING, 1.0),
        },
    )


def seed_population(root: Path, size: int) -> Experiment:
    """Make an experiment with that many living individuals."""
    experiment = Experiment.create(root, settings_for(size))
    rng, who, dna = Random(size), names.make_who(Random(size).randbytes), msgspec.Raw(encode(ancestor()).encode())
    files = stored_files({names.WEIGHTS: WEIGHTS})
    weights = root
    for number in range(size):
        identity = names.make_id(number + 1, rng.randbytes(10))
        fitness = rng.randrange(10_000) / 10_000
        alive = Individual(id=identity, state=State.ALIVE, claim=1, attempt=f"1-{who}", fitness=fitness)
        shard = names.shard_name(names.shard_of(identity, experiment.manifest.shards))
        place = root / "pop" / shard / names.encode(alive)
        place.mkdir()
        birth = Birth(
            dna=dna,
            mutation_seed=0,
            training_seed=number,
            id=identity,
            experiment=experiment.manifest.uuid,
            created=1.0,
        )
        result = Result(id=identity, attempt=f"1-{who}", fitness=fitness, metrics={}, files=files, finished=2.0)
        (place / names.BIRTH).write_bytes(msgspec.json.encode(birth))
        (place / names.of_attempt(alive.attempt, names.RESULT)).write_bytes(msgspec.json.encode(result))
        mine = place / names.of_attempt(alive.attempt, names.WEIGHTS)
        if number % SHARED_BY == 0:
            weights = mine
            weights.write_bytes(WEIGHTS)
        else:
            mine.hardlink_to(weights)
    return experiment
