"""The public names, and an experiment driven from Python."""

import pkgutil
from importlib import import_module
from random import Random

import numpy as np
import pytest

import genepool
from genepool import DNA, Experiment, Mutation, TrainedModel, Worker, preset
from genepool.dna import initial
from genepool.errors import DataError
from genepool.experiment import find_start
from genepool.mutations import MUTATIONS
from genepool.settings import changed

SMALL = {
    "budget.time": None,
    "budget.individuals": 4,
    "population.size": 3,
    "training.steps": 20,
    "training_budget.share": None,
    "workers.count": 1,
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("door") / "e"
    experiment = Experiment.create(path, changed(preset("laptop"), SMALL), find_start("initial", 1))
    assert experiment.best() is None and experiment.lineage() == [] and experiment.population() == []
    looks = []
    experiment.run(look=lambda: looks.append(len(experiment.population())))
    assert looks
    return experiment


def test_an_experiment_tells_of_itself(experiment):
    again = Experiment.open(str(experiment.path))
    best = again.best()
    living = again.population()
    assert living[0].fitness == best.fitness and len(living) >= 2
    assert again.lineage()[-1].id == best.id == again.lineage(best.id)[-1].id
    assert again.lineage()[0].mutations == ()


def test_a_model_answers_and_is_saved(experiment, tmp_path):
    model = experiment.model()
    images = np.random.default_rng(0).integers(0, 255, (5, 28, 28), dtype=np.uint8)
    model.save(tmp_path / "model.safetensors")
    other = TrainedModel.load(tmp_path / "model.safetensors")
    assert np.array_equal(other.probabilities(images), model.probabilities(images))
    assert set(model.predict(images)) <= set(model.classes)
    assert isinstance(model.dna, DNA) and model.dna == experiment.best().dna
    with pytest.raises(DataError, match="the model's"):
        model.probabilities(images[:, :9])


def test_a_run_that_is_ended_early_loses_nothing(experiment):
    experiment.set({"budget.individuals": 1000})

    def enough():
        raise KeyboardInterrupt

    before = len(experiment.population())
    with pytest.raises(KeyboardInterrupt):
        experiment.run(look=enough)
    assert len(experiment.population()) >= before


def test_every_public_name_is_there():
    assert all(getattr(genepool, name).__doc__ for name in genepool.__all__)
    mutation: Mutation = MUTATIONS.get("identity")
    assert mutation(initial(), Random(0)) == initial()
    assert callable(Worker.run)


PACKAGES = ["genepool", *(p.name for p in pkgutil.walk_packages(genepool.__path__, "genepool.") if p.ispkg)]


@pytest.mark.parametrize("name", [name for name in PACKAGES if not name.startswith("genepool.testing.bench")])
def test_the_visible_names_of_a_folder_are_its_public_names(name):
    package = import_module(name)
    public = getattr(package, "__all__", [])
    assert len(set(public)) == len(public)
    assert all(hasattr(package, member) for member in public)  # also those that are imported on first use
    own = {
        member
        for member, value in vars(package).items()
        if not member.startswith("_") and f"{getattr(value, '__module__', '')}.".startswith(f"{name}.")
    }
    assert own <= set(public)
    assert package.__doc__ and "To be written" not in package.__doc__
