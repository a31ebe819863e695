"""`genepool migrate`: the best of one real population in another, which may be at work and has but to take them."""

import json

import numpy as np
import pytest

from genepool.experiment import Experiment
from genepool.settings import override, preset
from tests.support.in_process import evolved, genepool, work_on

SMALL = [
    "population.size=4",
    "training.steps=12",
    "population.durability=fast",
    "training.validation_images=200",
    "workers.count=1",
    "budget.time=none",
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A population of trained individuals."""
    directory = tmp_path_factory.mktemp("home") / "first"
    return evolved(directory, *SMALL, "budget.individuals=10").path


def test_the_best_arrive_with_weights_and_lineage_and_evolution_goes_on_with_them(home, tmp_path):
    there = tmp_path / "second"
    second = Experiment.create(
        there, override(preset("faithful"), [*SMALL, "budget.individuals=12", "experiment.seed=1"])
    )
    moved = genepool("migrate", home, there, "--best", 2, "--json")
    assert moved.returncode == 0, moved.stderr
    migrants = json.loads(moved.stdout)
    known, rows = Experiment.open(home).history(), Experiment.open(there).history().rows
    assert migrants[0]["former"] == known.best().id
    assert len(rows) == len(migrants) == 2
    for migrant in migrants:
        row, former = rows[migrant["id"]], known.rows[migrant["former"]]
        assert row.dna == former.dna
        assert row.fitness == former.fitness == migrant["fitness"]  # the same images
        views = Experiment.open(home).view(), Experiment.open(there).view()
        assert views[1].weights(row.individual) == views[0].weights(former.individual)
        assert row.birth.origin["id"] == former.id

    chain = json.loads(genepool("lineage", there, migrants[0]["id"], "--json").stdout)
    at_home = json.loads(genepool("lineage", home, migrants[0]["former"], "--json").stdout)
    assert [link["id"] for link in chain] == [*(link["id"] for link in at_home), migrants[0]["id"]]
    assert {link["state"] for link in chain[:-1]} == {"elsewhere"}
    assert chain[-1]["mutations"] == ["migration"]
    refused = genepool("replay", there, migrants[0]["id"])
    assert refused.returncode == 2
    assert f"replay {migrants[0]['former']} there" in refused.stderr

    work_on(second)
    children = [row for row in Experiment.open(there).history().finished() if row.birth.parents]
    lines = [row for row in children if row.birth.parents[0] in {migrant["id"] for migrant in migrants}]
    assert lines, "those who came have children"
    assert any(row.evaluation.inherited for row in lines)
    assert genepool("check", there).returncode == 0


def test_what_does_not_fit_is_refused_and_nothing_is_moved(home, tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "other.npz", x_train=images, y_train=labels, x_test=images[:9], y_test=labels[:9])
    other = Experiment.create(
        tmp_path / "other", override(preset("faithful"), [*SMALL, f"data.source={tmp_path / 'other.npz'}"])
    )
    done = genepool("migrate", home, other.path)
    assert done.returncode == 2
    assert "has images of 28x28x1, but" in done.stderr
    assert "8x8x3" in done.stderr
    assert other.history().rows == {}
    same = genepool("migrate", home, home)
    assert (same.returncode, "the same experiment" in same.stderr) == (2, True)
    nobody = genepool("migrate", other.path, home)
    assert nobody.returncode == 2
    assert "Traceback" not in done.stderr + same.stderr + nobody.stderr
