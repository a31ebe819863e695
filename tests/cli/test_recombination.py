"""An evolution with recombination on real images: what the verbs tell of children of two, and that they repeat."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genepool.experiment import Experiment

GENEPOOL = str(Path(sys.executable).parent / "genepool")


def genepool(*arguments):
    return subprocess.run([GENEPOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=["weights", "fusion", "probabilities"])
def evolved(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param) / "experiment"
    done = genepool(
        "run", directory, "--preset", "faithful", "--workers", 1, "--population", 5, "--steps", 12, "--individuals", 16,
        "--set", f"recombination={request.param}", "--set", "recombination_odds=0.6", "--set", "time=0",
        "--set", "durability=fast", "--set", "validation=200", "--set", "mutation_odds.identity=1",
        "--set", "mutation_odds.insert-convolution=1", "--seed", 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return directory, Experiment.open(directory).history()


def test_children_of_two_are_trained_told_and_repeated(evolved):
    directory, history = evolved
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
    assert "The replay reaches the recorded accuracy." in replayed.stdout
    assert genepool("check", directory).returncode == 0
