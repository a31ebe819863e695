"""An experiment as after long evolution, written in seconds: archives of the dead, and a living population.

Records have realistic sizes. The living have weights, so that workers with a toy evaluator can continue.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.seeding import WEIGHTS
from genepool.dna import DNA, encode_in_a_line
from genepool.dna import initial as first_dna
from genepool.errors import MutationError
from genepool.experiment import Experiment
from genepool.mutations import MUTATIONS, apply
from genepool.population import Birth, Files, Fossil, Individual, Result, State
from genepool.population.directory import names
from genepool.population.directory.log import Archive
from genepool.population.directory.writer import stored_files
from genepool.settings import override, preset

WORKERS = 50
SIZES = 60
"""Different networks; records of the same one differ in everything else."""
A_DAY = 86400.0


def large(place: Path, count: int, alive: int) -> Experiment:
    """Make the paper's experiment after that many individuals."""
    words = [
        "data.source=cifar-10",
        "population.durability=fast",
        "population.set_point=damped",
        f"population.size={alive}",
    ]
    experiment = Experiment.create(place, override(preset("paper"), words))
    grow(experiment, count, alive)
    return experiment


def grow(experiment: Experiment, count: int, alive: int) -> None:
    """Add individuals as 50 workers would in a day; all but the last ones are dead and collected."""
    rng, files = random.Random(1), Files(durability="fast")
    texts = [msgspec.Raw(encode_in_a_line(dna)) for dna in _networks(rng)]
    whos = [names.make_who(rng.randbytes) for _ in range(WORKERS)]
    archives = []
    for who in whos:
        (experiment.path / "workers" / who).mkdir()
        archives.append(Archive(files, str(experiment.path / "workers" / who)))
    began, ids = time.time() - A_DAY, list[str]()
    for number in range(count):
        progress, who = number / count, number % WORKERS
        birth = _birth(experiment, number, began + A_DAY * progress, ids, rng, texts[_size(progress, rng)])
        result = _result(birth, f"1-{whos[who]}", progress, rng)
        if number >= count - alive:
            _live(experiment, birth, result)
        else:
            archives[who].add(_fossil(birth, result, whos[who]))
    for archive in archives:
        archive.close()


def bytes_of(experiment: Experiment) -> int:
    """Return the size of the archives on disk."""
    return sum(path.stat().st_size for path in (experiment.path / "workers").rglob("*.log"))


def _networks(rng: random.Random) -> list[DNA]:
    """Return a lineage of networks."""
    found = [first_dna()]
    names = ["insert-convolution", "insert-one-to-one", "add-skip", "alter-number-of-channels", "filter-size"]
    while len(found) < SIZES:
        with contextlib.suppress(MutationError):
            found.append(apply(rng.choice(names), found[-1], rng))
    return found


def _size(progress: float, rng: random.Random) -> int:
    return min(SIZES - 1, int(SIZES * progress * rng.uniform(0.6, 1.0)))


def _birth(
    experiment: Experiment, number: int, moment: float, ids: list[str], rng: random.Random, dna: msgspec.Raw
) -> Birth:
    """Make a birth whose parent is one of the last few thousand."""
    identity = names.make_id(int(1000 * moment), rng.randbytes(10))
    parent = ids[rng.randrange(max(0, len(ids) - 3000), len(ids))] if ids and rng.random() > 0.001 else None
    ids.append(identity)
    return Birth(
        dna=dna,
        parents=(parent,) if parent else (),
        mutations=(rng.choice(MUTATIONS.names()),) if parent else (),
        mutation_seed=number,
        training_seed=number,
        id=identity,
        experiment=experiment.manifest.uuid,
        created=moment - 100,
    )


def _result(birth: Birth, attempt: str, progress: float, rng: random.Random) -> Result:
    fitness = min(0.95, max(0.1, 0.95 * (1 - math.exp(-5 * progress)) - abs(rng.gauss(0, 0.06))))
    return Result(
        id=birth.id,
        attempt=attempt,
        fitness=round(fitness, 6),
        metrics=_metrics(progress, rng),
        files=stored_files({names.WEIGHTS: WEIGHTS}),
        finished=birth.created + 100,
    )


def _metrics(progress: float, rng: random.Random) -> dict[str, Any]:
    """Make metrics like those of a training on CIFAR-10."""
    parameters = int(40 * 10 ** (5 * progress * rng.uniform(0.8, 1.0)))
    return {
        "parameters": parameters,
        "flops_forward": 100 * parameters,
        "flops_training": 300 * parameters,
        "flops": 300 * parameters * 25_600,
        "steps": 25_600,
        "losses": [(step, round(2.3 * math.exp(-step / 9000), 4)) for step in range(0, 25_600, 512)],
        "inherited": [f"edge_{rng.getrandbits(64):016x}.weight" for _ in range(20)],
        "fresh": [f"vertex_{rng.getrandbits(64):016x}.bias"],
        "seconds": 100.0,
        "stepping": 95.0,
    }


def _fossil(birth: Birth, result: Result, who: str) -> Fossil:
    dead = Individual(
        id=birth.id,
        state=State.DEAD,
        claim=1,
        attempt=result.attempt,
        fitness=result.fitness,
        owner=who,
        why="lost",
    )
    return Fossil(individual=dead, birth=birth, result=result)


def _live(experiment: Experiment, birth: Birth, result: Result) -> None:
    alive = Individual(id=birth.id, state=State.ALIVE, claim=1, attempt=result.attempt, fitness=result.fitness)
    shard = names.shard_name(names.shard_of(birth.id, experiment.manifest.shards))
    folder = experiment.path / "pop" / shard / names.encode(alive)
    folder.mkdir()
    (folder / names.BIRTH).write_bytes(msgspec.json.encode(birth))
    (folder / names.of_attempt(result.attempt, names.RESULT)).write_bytes(msgspec.json.encode(result))
    (folder / names.of_attempt(result.attempt, names.WEIGHTS)).write_bytes(WEIGHTS)
