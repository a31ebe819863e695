"""The same command again: with a larger budget it goes on, with another seed it is refused, elsewhere it repeats."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from genepool.experiment import Experiment
from tests.support import in_process
from tests.support.processes import assert_sound, finished, genepool

BORN = 16
SMALL = ("--workers", 1, "--population", 6, "--steps", 40, "--set", "budget.time=none")


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two experiments of one seed, each with one worker."""
    one, other = (tmp_path_factory.mktemp("twins") / name for name in ("one", "other"))
    with ThreadPoolExecutor() as pool:
        command = ("--preset", "faithful", "--seed", 7, "--individuals", BORN, *SMALL)
        results = list(pool.map(lambda directory: genepool("run", directory, *command), (one, other)))
    assert [result.returncode for result in results] == [0, 0], results
    return one, other


def told(directory: Path) -> list[tuple[object, ...]]:
    rows = sorted(Experiment.open(directory).history().rows.values(), key=lambda row: row.id)
    return [(row.birth.mutations, bytes(row.birth.dna), row.fitness) for row in rows]


def test_one_worker_and_one_seed_give_the_same_individuals_and_weights(twins: tuple[Path, Path]) -> None:
    one, other = twins
    assert told(one) == told(other)
    assert len(told(one)) == BORN
    best = [(directory / "best" / "weights.safetensors").read_bytes() for directory in twins]
    assert best[0] == best[1]


def test_the_best_is_replayed(twins: tuple[Path, Path]) -> None:
    result = in_process.genepool("replay", twins[0])
    assert result.returncode == 0, result.stdout
    assert "agrees with the record" in result.stdout


@pytest.mark.parametrize("change", [("--seed", 8), ("--data", "cifar-10"), ("--set", "training.batch=20")])
def test_a_contradicting_setting_is_refused_in_one_sentence(
    change: tuple[str, object], twins: tuple[Path, Path]
) -> None:
    result = in_process.genepool("run", twins[1], *change)
    assert result.returncode == 2
    assert "is an experiment with other settings" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(finished(twins[1])) == BORN


def test_a_larger_budget_goes_on(twins: tuple[Path, Path]) -> None:
    directory = twins[1]
    before = finished(directory)
    result = in_process.genepool("run", directory, "--individuals", BORN + 6)
    assert result.returncode == 0, result.stderr
    after = finished(directory)
    assert len(after) == BORN + 6
    assert {identity: row.fitness for identity, row in before.items()}.items() <= {
        identity: row.fitness for identity, row in after.items()
    }.items()
    assert_sound(directory)
