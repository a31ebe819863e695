"""Accuracy under a cost: objectives and limits, through real short evolutions on the shipped images."""

import json
import math
import re

import pytest

from genepool.dna import Shape, capacity
from genepool.evaluation import Limits, Objective
from genepool.experiment import Experiment
from tests.support.in_process import evolved, genepool

FASHION = (Shape(28, 28, 1), 10)
SHORT = ("--workers", 1, "--steps", 30, "--time", "none", "--seed", 5)


def told(*arguments):
    result = genepool(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def rows(directory):
    found = Experiment.open(directory).history().finished()
    assert found
    return found


@pytest.fixture(scope="module")
def frugal(tmp_path_factory):
    """A search for accuracy for its FLOPs, and what it printed."""
    directory = tmp_path_factory.mktemp("frugal") / "experiment"
    goals = ("--objective", "accuracy-per-flops", "--set", "objective.flops_weight=0.3", "--max-flops", 60_000)
    goals += ("--set", "objective.flops_target=500")  # below the trivial network's
    return directory, told("run", directory, *SHORT, "--individuals", 14, "--population", 4, *goals)


def test_fitness_counts_the_flops_and_accuracy_stays_in_the_record(frugal):
    for row in rows(frugal[0]):
        flops = capacity(row.dna, *FASHION).flops
        assert row.evaluation.flops_image == flops
        assert row.fitness == pytest.approx(row.accuracy * (flops / 500) ** -0.3)
        assert 0 < row.fitness < row.accuracy <= 1


def test_no_child_is_born_over_the_flops_that_are_allowed(frugal):
    assert all(row.evaluation.flops_image <= 60_000 and row.evaluation.reason is None for row in rows(frugal[0]))


def test_the_best_is_the_fittest_and_all_that_speaks_of_accuracy_means_accuracy(frugal, tmp_path):
    directory, page = frugal
    alive = [row for row in rows(directory) if row.state.name == "ALIVE"]
    fittest = max(alive, key=lambda row: row.fitness)
    share = f"{100 * fittest.accuracy:.1f} %"
    best = json.loads(told("best", directory, "--json"))
    assert (best["id"], best["fitness"], best["accuracy"]) == (fittest.id, fittest.fitness, fittest.accuracy)
    assert f"validation accuracy  {share}" in page
    assert f"fitness              {fittest.fitness:.4f}" in page
    assert f"best         {share} validation accuracy" in told("status", directory)
    header, *_, last = told("lineage", directory).splitlines()
    assert re.search(r"accuracy +fitness", header)
    assert re.search(rf"{re.escape(share)} +{fittest.fitness:.4f}", last)
    told("export", directory, "--format", "source", "--out", tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"validation accuracy | {share} (evolution selected by a fitness that also counts FLOPs)" in card
    assert f"Accuracy {share}" in card
    pair = json.loads(told("ensemble", directory, "--format", "source", "--out", tmp_path / "pair", "--json"))
    accuracies = {row.id: row.accuracy for row in alive}
    assert all(voter["validation_accuracy"] == accuracies[voter["id"]] for voter in pair["members"])


def test_what_an_experiment_strives_for_cannot_change_under_way(frugal):
    refused = genepool("set", frugal[0], "objective.kind=accuracy")
    assert refused.returncode == 2
    assert "objective" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_redraws_a_network_over_a_limit_is_not_trained_and_says_why(tmp_path):
    directory = tmp_path / "experiment"
    settings = (
        "training.steps=10",
        "budget.individuals=12",
        "population.size=3",
        "experiment.seed=5",
        "limits.flops=20000",
    )
    evolved(directory, *settings, "breeding.odds.insert-convolution=1")
    refused = [row for row in rows(directory) if row.evaluation.flops_image > 20_000]
    assert refused
    for row in refused:
        assert row.fitness == row.accuracy == 0.0
        assert "over the limit of 20,000; raise limits.flops" in row.evaluation.reason


@pytest.mark.thorough
def test_networks_over_the_time_live_below_all_that_keep_it(tmp_path):
    directory = tmp_path / "experiment"
    command = ("run", directory, *SHORT, "--individuals", 4, "--population", 3)
    page = told(*command, "--max-milliseconds", 0.00001)
    assert re.search(r"inference            \S+ ms per image", page)
    for row in rows(directory):
        assert 0 < row.accuracy <= 1
        assert -1 <= row.fitness < 0
        assert row.evaluation.milliseconds > 0.00001
    told("run", directory, "--individuals", 8, "--max-milliseconds", 10_000)
    late = rows(directory)[4:]
    assert all(row.fitness == row.accuracy for row in late)
    assert json.loads(told("best", directory, "--no-test", "--json"))["fitness"] > 0
    assert json.loads(told("status", directory, "--json"))["best_fitness"] == max(row.fitness for row in late)
    told("replay", directory)


@pytest.mark.parametrize("option", [("--objective", "speed"), ("--max-flops", -1), ("--max-milliseconds", "nan")])
def test_goals_that_mean_nothing_are_refused_in_a_sentence(tmp_path, option):
    refused = genepool("run", tmp_path / "experiment", *option)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "experiment").exists()


def test_the_order_of_fitness_is_limits_first_then_accuracy_and_cost():
    objective, limits = Objective(kind="accuracy-per-flops"), Limits(milliseconds=2.0)
    ladder = [
        limits.untrained,
        limits.penalised(objective.fitness(0.9, 1000), 40.0),
        limits.penalised(objective.fitness(0.9, 1000), 3.0),
        limits.penalised(objective.fitness(0.0, 10**9), 2.0),
        limits.penalised(objective.fitness(0.9, 10**9), 1.0),
        limits.penalised(objective.fitness(0.9, 10**6), 1.0),
        limits.penalised(objective.fitness(0.95, 10**6), 1.0),
    ]
    assert ladder == sorted(set(ladder))
    assert Objective().fitness(0.7, 10**6) == 0.7
    tenfold = [objective.fitness(0.8, 10**power) for power in (6, 7, 8, 9)]
    assert objective.fitness(0.8, 1000) == tenfold[0] == 0.8
    assert math.isclose(tenfold[1] / tenfold[0], tenfold[3] / tenfold[2])
