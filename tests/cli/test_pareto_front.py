"""`genepool best --front`, against brute force over everybody that a real population has seen."""

import json
import time
from random import Random

import msgspec
import pytest

from genepool.dna import encode_in_a_line
from genepool.evaluation import Evaluation
from genepool.experiment import Experiment
from genepool.population import Birth, DirectoryPopulation, Files, Fossil, Individual, Result, State
from genepool.population.directory import names
from genepool.population.directory.log import Archive
from genepool.settings import changed, preset
from tests.support.in_process import genepool
from tests.support.networks import random_dna

LIVED, FOSSILS = 120, 10_000


def front(directory, *options):
    result = genepool("best", directory, "--front", *options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def drawn(rng, *, timed):
    """What a training might have told; coarse, so that there are ties."""
    accuracy = rng.randrange(20, 95) / 100
    return Evaluation(
        fitness=accuracy - 0.5,
        accuracy=accuracy,
        parameters=rng.randrange(1, 40) * 100,
        flops_image=rng.randrange(1, 40) * 1000,
        milliseconds=rng.randrange(1, 30) / 10 if timed else None,
    )


def made(directory, seed, *, timed):
    """An experiment in which most have died; who has weights, and what was told of each, by ID."""
    rng = Random(seed)
    Experiment.create(directory, changed(preset("laptop"), {"population.durability": "fast", "population.size": 50}))
    population = DirectoryPopulation.open(directory, files=Files(durability="fast"))
    told, weights = {}, set()
    for number in range(LIVED):
        birth = Birth(dna=msgspec.Raw(encode_in_a_line(random_dna(number, 8))), mutation_seed=1, training_seed=2)
        individual = population.create(birth)
        evaluation = drawn(rng, timed=timed)
        if number % 10 == 9:  # could not be trained; its figures would win everything
            evaluation = Evaluation(fitness=0.0, accuracy=0.0, reason="it diverged.", parameters=1, flops_image=1)
        metrics = msgspec.to_builtins(evaluation)
        fitness = metrics.pop("fitness")
        files = {} if evaluation.reason else {names.WEIGHTS: b"weights"}
        individual = population.finish(individual, fitness=fitness, metrics=metrics, files=files)
        told[individual.id] = evaluation
        fate = rng.choice(("alive", "dead", "collected", "collected"))
        if fate != "alive":
            individual = population.kill(individual)
        if fate == "collected":
            population.collect(individual)
        if fate in ("alive", "dead") and files:
            weights.add(individual.id)
    population.close()
    return told, weights


def criteria(evaluation):
    """All to be small."""
    times = () if evaluation.milliseconds is None else (evaluation.milliseconds,)
    return (-evaluation.accuracy, evaluation.parameters, evaluation.flops_image, *times)


def undominated(evaluations):
    """Every point against every other."""
    points = {criteria(e) for e in evaluations if e.reason is None}
    return {
        p for p in points if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)
    }  # fmt: skip


@pytest.mark.parametrize(("seed", "timed"), [(1, False), (2, True), (3, False)])
def test_the_front_is_that_of_brute_force_and_knows_whose_weights_are_there(tmp_path, seed, timed):
    told, weights = made(tmp_path / "experiment", seed, timed=timed)
    points = json.loads(front(tmp_path / "experiment", "--json"))
    assert len(points) > 3
    found = [criteria(told[point["id"]]) for point in points]
    assert len(set(found)) == len(found)
    assert set(found) == undominated(told.values())
    for point in points:
        evaluation = told[point["id"]]
        assert point["accuracy"] == evaluation.accuracy
        assert (point["parameters"], point["flops"]) == (evaluation.parameters, evaluation.flops_image)
        assert point["milliseconds"] == evaluation.milliseconds
        assert point["weights"] is (point["id"] in weights)
        if not point["weights"]:  # then nobody else with the same figures has any
            assert not [i for i in weights if criteria(told[i]) == criteria(evaluation)]
    assert {point["weights"] for point in points} == {True, False}
    page = front(tmp_path / "experiment")
    assert len(page.splitlines()) == 1 + len(points)
    assert ("milliseconds" in page) is timed


def test_ten_thousand_that_are_long_dead_take_seconds(tmp_path):
    directory = tmp_path / "experiment"
    told, _ = made(directory, 4, timed=False)
    rng, who = Random(5), names.make_who(Random(6).randbytes)
    (directory / "workers" / who).mkdir()
    archive = Archive(Files(durability="fast"), str(directory / "workers" / who))
    dna = msgspec.Raw(encode_in_a_line(random_dna(7)))
    for number in range(FOSSILS):
        identity, evaluation = names.make_id(number, rng.randbytes(10)), drawn(rng, timed=False)
        metrics = msgspec.to_builtins(evaluation)
        fitness = metrics.pop("fitness")
        result = Result(
            id=identity, attempt=f"1-{who}", fitness=fitness, metrics=metrics, files={}, finished=float(number)
        )
        birth = Birth(dna=dna, mutation_seed=1, training_seed=2, id=identity)
        dead = Individual(
            id=identity, state=State.DEAD, claim=1, attempt=f"1-{who}", fitness=fitness, owner=who, why="lost"
        )
        archive.add(Fossil(individual=dead, birth=birth, result=result))
        told[identity] = evaluation
    archive.close()
    started = time.process_time()
    points = json.loads(front(directory, "--json"))
    assert time.process_time() - started < 10  # about one on an idle core; each with each would take far longer
    assert {criteria(told[point["id"]]) for point in points} == undominated(told.values())


def test_an_empty_experiment_has_no_front(tmp_path):
    Experiment.create(tmp_path / "experiment", changed(preset("laptop"), {"population.size": 10}))
    assert "No network has been trained yet" in front(tmp_path / "experiment")
    assert json.loads(front(tmp_path / "experiment", "--json")) == []
