"""Evolving on from something: a network of the zoo, a DNA, an exported model with its weights."""

import json
from pathlib import Path

import pytest

from genepool import Experiment
from tests.support.in_process import genepool

SMALL = (
    "--workers",
    1,
    "--population",
    3,
    "--steps",
    30,
    "--individuals",
    4,
    "--set",
    "budget.time=none",
    "--set",
    "population.lease=2",
)


def done(*words):
    result = genepool(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*words):
    result = genepool(*words)
    assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An exported source folder, whose Python somebody has made hostile since."""
    folder = tmp_path_factory.mktemp("model")
    done("run", folder / "e", *SMALL, "--seed", 2, "--steps", 100, "--start", Path("examples/three-convolutions.json"))
    done("export", folder / "e", "--format", "source", "--out", folder / "model")
    (folder / "model" / "model.py").write_text(f"open({str(folder / 'sprung')!r}, 'w')\n")
    return folder / "model"


def first(directory):
    rows = Experiment.open(directory).history().rows.values()
    return [row for row in rows if not row.birth.parents]


def test_a_model_goes_on_with_its_weights(model, tmp_path):
    directory = tmp_path / "e"
    done("run", directory, *SMALL, "--start", model, "--set", "breeding.learning_rate=0.01")
    beginners = first(directory)
    assert beginners and all(row.evaluation.inherited and not row.evaluation.fresh for row in beginners)
    best = Experiment.open(model.parent / "e").history().best()
    assert all(row.dna == best.dna for row in beginners)
    # From nothing it would not come near in 30 steps: it goes on from what was learnt.
    assert max(row.fitness for row in beginners) > best.fitness - 0.15
    assert "(the beginning: model)" in done("lineage", directory)
    assert Experiment.open(directory).settings().experiment.start.startswith("model ")
    assert "The replay agrees" in done("replay", directory)
    assert "every invariant holds" in done("check", directory)
    # Going on needs no --start, another one is refused, and files that were changed are noticed.
    done("run", directory, "--individuals", 5)
    assert "other settings (experiment.start is 'model" in refused("run", directory, "--start", "initial")
    (directory / "start" / "dna.json").write_text("{}")
    assert "are not the network that this experiment started from" in refused("worker", directory)
    assert not (model.parent / "sprung").exists()


def test_import_gives_dna_and_weights_that_train_on(model, tmp_path):
    out = tmp_path / "again.json"
    assert "28x28x1, 10 classes" in done("import", model, "--out", out)
    weights = tmp_path / "again.safetensors"
    evaluation = json.loads(done("train", out, "--parent", weights, "--steps", 0, "--json"))
    best = Experiment.open(model.parent / "e").history().best()
    assert evaluation["fitness"] == best.fitness and not evaluation["fresh"]
    assert "already exists" in refused("import", model, "--out", out)
    assert "must end in .json" in refused("import", model, "--out", tmp_path / "x.pt2")
    assert "no network 2" in refused("import", model, "--out", tmp_path / "x.json", "--member", 2)
    assert not (model.parent / "sprung").exists()


BAD = {
    "nothing there": ("nowhere", "There is no 'nowhere' to start from"),
    "no model": (".", "neither an exported model nor an experiment"),
    "no DNA": ("pyproject.json", "pyproject.json"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_started_from(tmp_path, text, said):
    assert said in refused("run", tmp_path / "e", "--start", text, *SMALL)
    assert not (tmp_path / "e").exists()


def test_a_network_of_the_zoo_for_the_channels_of_the_images(tmp_path):
    done(
        "run",
        tmp_path / "e",
        *SMALL,
        "--steps",
        2,
        "--individuals",
        2,
        "--start",
        "resnet-20",
        "--set",
        "training.validation_images=50",
    )
    beginners = first(tmp_path / "e")
    assert len(beginners) >= 2 and all("16" in row.dna.in_a_line() or row.dna.convs for row in beginners)
    assert all(not row.evaluation.inherited for row in beginners)
