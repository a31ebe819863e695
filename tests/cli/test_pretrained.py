"""Evolving on from a network that was trained on other images: another size, other classes, grey instead of colour."""

import json

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from genepool import Experiment, ImageClassifier
from genepool.data import prepare
from genepool.dna import Shape, capacity
from genepool.errors import DataError
from genepool.experiment import beginning, find_start
from genepool.nn import from_bytes
from genepool.settings import changed, preset
from tests.support.foreign_networks import resnet, save_onnx, save_pt2
from tests.support.in_process import genepool
from tests.support.photographs import photographs

FAST = ("--workers", 1, "--population", 3, "--set", "budget.time=none", "--set", "population.durability=fast")
SMALL = (*FAST, "--steps", 20, "--individuals", 3)


def done(*words):
    result = genepool(*words)
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A network with three convolutions that was trained on grey images of 28x28 pixels and ten classes."""
    folder = tmp_path_factory.mktemp("model")
    start = ("--start", "examples/three-convolutions.json")
    done("run", folder / "e", *FAST, "--steps", 100, "--individuals", 2, "--seed", 2, *start)
    done("export", folder / "e", "--format", "onnx", "--out", folder / "model.onnx")
    return folder / "model.onnx"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Colour photographs of 20 to 60 pixels in two classes."""
    return photographs(tmp_path_factory.mktemp("photos"))


def founders(experiment):
    return [row for row in experiment.history().rows.values() if not row.birth.parents]


@pytest.fixture(scope="module")
def experiment(model, photos, tmp_path_factory):
    directory = tmp_path_factory.mktemp("evolved") / "e"
    said = done("run", directory, "--data", photos, *SMALL, "--start", model).stderr
    assert "Starting from model.onnx: images of" in said and "(it was trained on 28x28)" in said
    assert "a new classifier for 2 classes instead of 10, learning rate 0.1 (body 0.05)." in said
    return Experiment.open(directory)


def test_the_first_individuals_inherit_all_but_the_classifier(experiment, model):
    settings, before = experiment.settings(), find_start(str(model))
    assert founders(experiment)
    for row in founders(experiment):
        assert not row.evaluation.fresh
        assert (row.dna.vertices, row.dna.edges) == (before.dna.vertices, before.dna.edges)
        assert (row.dna.learning_rate, row.dna.body_rate) == (
            settings.breeding.learning_rate,
            settings.breeding.body_rate,
        )
    old, new = from_bytes(before.weights), from_bytes(experiment.founder().weights)
    for name, tensor in new.items():
        if name.startswith("classifier"):
            assert tensor.shape[0] == 2 and not tensor.any()
        else:
            assert tensor.equal(old[name])


def test_the_images_are_brought_to_what_the_network_was_trained_on(experiment, model):
    data, found = experiment.settings().data, find_start(str(model))
    images = prepare(experiment.source())
    assert images.channels == data.channels == 1
    assert images.height * images.width <= 28 * 28 * 1.05
    assert data.size == f"{images.height}x{images.width}"
    assert np.allclose(images.mean, found.mean) and np.allclose(images.std, found.std)


@pytest.mark.thorough
def test_the_experiment_goes_on_is_replayed_and_exported(experiment, model, photos, tmp_path):
    before = experiment.settings()
    done("run", experiment.path, "--individuals", 4)
    done("run", experiment.path, "--start", model, "--individuals", 5)
    done("run", experiment.path, "--set", "breeding.learning_rate=0.5")
    done("run", experiment.path, "--start", model)
    assert experiment.settings().data == before.data
    assert "The replay agrees" in done("replay", experiment.path).stdout
    assert "every invariant holds" in done("check", experiment.path).stdout
    assert "(body 0.0" in done("lineage", experiment.path).stdout
    done("export", experiment.path, "--out", tmp_path / "photos.pt2")
    facts = experiment.model().facts
    assert facts.mean == prepare(experiment.source()).mean and facts.channels == 1
    assert json.loads(done("predict", tmp_path / "photos.pt2", photos, "--json").stdout)


def test_its_own_images_and_classes_keep_classifier_rates_and_preset(model, tmp_path):
    done("run", tmp_path / "e", *SMALL, "--start", model)
    again = Experiment.open(tmp_path / "e")
    assert again.settings().breeding.odds == preset("laptop").breeding.odds
    assert again.founder().weights == find_start(str(model)).weights
    assert all(row.dna == find_start(str(model)).dna for row in founders(again))


def test_a_network_over_the_limit_begins_narrower_and_is_trained(model, photos, tmp_path):
    flops = capacity(find_start(str(model)).dna, Shape(28, 28, 1), 2).flops
    said = done("run", tmp_path / "e", "--data", photos, *SMALL, "--start", model, "--max-flops", flops // 2).stderr
    assert "narrowed to the limits" in said
    for row in Experiment.open(tmp_path / "e").history().rows.values():
        assert row.evaluation.reason is None and 0 < row.evaluation.flops_image <= flops // 2


def test_a_network_that_cannot_be_narrowed_enough_is_refused(model, photos, tmp_path):
    result = genepool("run", tmp_path / "e", "--data", photos, *SMALL, "--start", model, "--max-flops", 10)
    assert result.returncode == 2 and "'model.onnx' cannot be made small enough" in result.stderr
    assert not (tmp_path / "e").exists()


def test_the_wrong_number_of_channels_is_refused(model, photos, tmp_path):
    result = genepool("run", tmp_path / "e", "--data", photos, "--start", model, "--set", "data.channels=3")
    assert result.returncode == 2 and "was trained on grey images, but data.channels is 3" in result.stderr


def test_given_settings_are_kept(model, photos):
    given = {"data.source": str(photos), "data.size": "20x24", "data.mean": "0.5", "data.std": "0.25"}
    found = beginning(str(model), lambda name: changed(preset(name), given), lambda settings: settings.data.open())
    assert found.settings.data == changed(preset("laptop"), {**given, "data.channels": 1}).data
    data = prepare(found.settings.data.open())
    assert (data.mean, data.std, data.height, data.width) == ((0.5,), (0.25,), 20, 24)


def test_a_classifier_begins_with_it_on_arrays_and_folders(model, photos):
    colour = np.repeat(load_digits().images[:200, ..., None], 3, axis=3) / 16
    labels = np.array(["odd" if label % 2 else "even" for label in load_digits().target[:200]])
    settings = {"workers.count": 1, "training.steps": 20, "budget.individuals": 2, "training_budget.share": None}
    fitted = ImageClassifier(time=None, start=model, settings=settings).fit(colour, labels)
    assert set(fitted.predict(colour)) <= {"odd", "even"} and fitted.facts_.channels == 1
    assert fitted.experiment.settings().experiment.start.startswith("model.onnx ")
    assert fitted.experiment.settings().breeding.odds == preset("finetune").breeding.odds
    again = ImageClassifier(time=None, start=model, settings=settings).fit(photos)
    assert again.score(photos) > 0
    with pytest.raises(DataError, match="no 'nowhere' to start from"):
        ImageClassifier(start="nowhere", settings=settings).fit(photos)


def test_plain_fine_tuning_of_the_same_network_is_measured(model, photos):
    words = ("bench", "finetune", model, "--data", photos, "--time", "2s", "--threads", 1, "--json")
    found = json.loads(done(*words).stdout)
    assert found["steps"] > 0 and 0 <= found["validation_accuracy"] <= 1 and 0 <= found["test_accuracy"] <= 1
    result = genepool("bench", "finetune", "resnet-20", "--data", photos, "--time", "1s")
    assert result.returncode == 2 and "has no weights to fine-tune" in result.stderr


@pytest.mark.parametrize("form", [pytest.param("folded.onnx", marks=pytest.mark.thorough), "plain.pt2"])
def test_a_network_of_another_program_evolves_on(form, photos, tmp_path):
    network, images = resnet(18, classes=5, width=8), torch.zeros(2, 3, 32, 32)
    save = save_onnx if form.endswith(".onnx") else save_pt2
    save(network, images, tmp_path / form)
    mean = ("--set", "data.mean=0.485,0.456,0.406", "--set", "data.std=0.229,0.224,0.225")
    said = done("run", tmp_path / "e", "--data", photos, *SMALL, "--start", tmp_path / form, *mean).stderr
    assert "a new classifier for 2 classes instead of 5" in said and "unknown" not in said
    experiment = Experiment.open(tmp_path / "e")
    assert experiment.settings().breeding.odds == preset("finetune").breeding.odds
    images = prepare(experiment.source())
    assert (
        images.channels == 3 and images.mean == (0.485, 0.456, 0.406) and images.height * images.width <= 1.05 * 32 * 32
    )
    for row in founders(experiment):
        assert row.evaluation.reason is None and not row.evaluation.fresh
    assert "The replay agrees" in done("replay", experiment.path).stdout
    assert experiment.settings().experiment.start.startswith(f"{form} ")
