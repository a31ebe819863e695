"""An evolution with recombination on real images: what the verbs tell of children of two, and that they repeat."""

import json

import pytest

from tests.support.in_process import evolved, genepool

SMALL = (
    *(
        "population.size=5",
        "training.steps=12",
        "budget.individuals=16",
        "breeding.recombination_odds=0.6",
        "training.validation_images=200",
        "experiment.seed=2",
    ),
    *("breeding.odds.identity=1", "breeding.odds.insert-convolution=1"),
)


@pytest.mark.parametrize("way", ["weights", "fusion", "probabilities"])
def test_children_of_two_are_trained_told_and_repeated(way, tmp_path):
    directory = tmp_path / "experiment"
    history = evolved(directory, *SMALL, f"breeding.recombination={way}").history()
    of_two = [row for row in history.finished() if len(row.birth.parents) == 2]
    assert len(of_two) >= 3
    assert all(row.evaluation.reason is None for row in of_two)
    with_odds = [row for row in of_two if row.dna.odds]
    assert any(row.evaluation.second for row in of_two) or len(with_odds) == len(of_two)
    chosen = of_two[2]
    chain = json.loads(genepool("lineage", directory, chosen.id, "--json").stdout)
    assert (chain[-1]["id"], chain[-1]["second"]) == (chosen.id, chosen.birth.parents[1])
    assert chain[-2]["id"] == chosen.birth.parents[0]
    assert f"with {chosen.birth.parents[1]}" in genepool("lineage", directory, chosen.id).stdout
    replayed = genepool("replay", directory, chosen.id)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "The replay agrees with the record." in replayed.stdout
    assert genepool("check", directory).returncode == 0
