"""The paper's Figure 1 in a report: the best network and three of its ancestors, each with its test accuracy."""

import json
import re
import shutil

import pytest
from msgspec import Raw

from genepool.analysis import Row, four_ancestors
from genepool.dna import codec
from genepool.experiment import Experiment, best_network, choose_best
from genepool.population import Birth, Individual, Result, State
from genepool.study import known_test_accuracies
from tests.support.in_process import evolved, genepool
from tests.support.networks import chain, conv

LABEL = re.compile(r"<!-- (test [\d.]+ %|not tested) -->")
"""matplotlib writes each text of an SVG as a comment before its outlines."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """An experiment whose best has dead ancestors: small networks that only train on, so the later the better."""
    settings = ("population.size=3", "training.steps=20", "budget.individuals=20", "breeding.odds.identity=1")
    return evolved(tmp_path_factory.mktemp("four") / "experiment", *settings)


@pytest.fixture
def experiment(original, tmp_path):
    return Experiment.open(shutil.copytree(original.path, tmp_path / "experiment"))


def labels(experiment):
    """What is written below the networks of the figure."""
    assert genepool("report", experiment.path).returncode == 0
    return LABEL.findall((experiment.path / "report" / "progress.svg").read_text())


def test_a_report_tests_nothing_and_says_how_to(experiment):
    assert labels(experiment) == ["not tested"] * 4
    text = (experiment.path / "report" / "report.md").read_text()
    assert re.search(r"4 of them not tested: .genepool replay DIR \w+ --test", text.replace("\\", ""))
    assert known_test_accuracies(experiment) == {}


def test_a_replay_tests_the_four_networks_once_although_their_weights_are_gone(experiment):
    history = experiment.history()
    best = choose_best(experiment, history)
    shown = [network.id for network in four_ancestors(history.rows, best.id, {})]
    assert any(history.rows[name].state is not State.ALIVE for name in shown)
    done = genepool("replay", experiment.path, "--test", "--json")
    assert done.returncode == 0, done.stderr
    links = json.loads(done.stdout)["lineage"]
    measured = {link["id"]: link["test"] for link in links if link["test"] is not None}
    assert list(measured) == shown and known_test_accuracies(experiment) == measured
    assert labels(experiment) == [f"test {100 * accuracy:.1f} %" for accuracy in measured.values()]
    text = (experiment.path / "report" / "report.md").read_text()
    assert "not tested" not in text and all(f"{100 * accuracy:.2f} %" in text for accuracy in measured.values())
    again = json.loads(genepool("replay", experiment.path, "--test", "--json").stdout)
    assert not [link for link in again["lineage"] if link["test"] is not None]
    # Measured with the replayed network or with the original: it is the same one.
    (experiment.path / "best" / "tests.json").unlink()
    assert best_network(experiment, source=experiment.source).test_accuracy == measured[best.id]


def test_a_replay_that_disagrees_tests_only_what_still_has_its_weights(experiment):
    version = experiment.path / "config" / "000001.json"
    version.write_text(re.sub(r'"momentum": *0\.9', '"momentum": 0.5', version.read_text()))
    done = genepool("replay", experiment.path, "--test", "--json")
    assert done.returncode == 1
    alive = {row.id for row in experiment.history().finished() if row.state is State.ALIVE}
    agreeing = {link["id"] for link in json.loads(done.stdout)["lineage"] if link["agrees"]}
    assert set(known_test_accuracies(experiment)) <= alive | agreeing
    assert known_test_accuracies(experiment)


def row(number, convolutions):
    name = f"n{number}"
    birth = Birth(
        dna=Raw(codec.encode_in_a_line(chain(*(conv(f"c{i}") for i in range(convolutions))))),
        parents=(f"n{number - 1}",) if number else (),
        mutation_seed=0,
        training_seed=0,
    )
    result = Result(id=name, attempt="", fitness=number / 10, metrics={}, files={}, finished=float(number))
    return Row(individual=Individual(id=name, state=State.DEAD), birth=birth, result=result)


LINE = {f"n{number}": row(number, convolutions) for number, convolutions in enumerate([1, 1, 2, 3, 3, 4, 5, 5, 6, 6])}
"""A lineage, by the number of convolutions of each network."""


@pytest.mark.parametrize(
    ("tested", "shown"),
    [
        ("", "n0 n3 n5 n9"),  # evenly spaced new networks
        ("n2 n4", "n0 n2 n4 n9"),
        ("n2 n4 n5 n6 n7", "n0 n4 n5 n9"),  # evenly spaced again; n7 is the network of n6
        ("n5", "n0 n3 n5 n9"),  # one alone does not decide
        ("n1 n5 n8", "n0 n3 n5 n9"),  # the networks of the first and of the best are there already
    ],
)
def test_tested_ancestors_are_drawn_rather_than_others(tested, shown):
    known = dict.fromkeys([*tested.split(), "n9"], 0.5)
    drawn = four_ancestors(LINE, "n9", known)
    assert [network.id for network in drawn] == shown.split()
    assert [network.test for network in drawn] == [known.get(network.id) for network in drawn]


def test_a_later_best_does_not_make_the_test_of_a_former_one_forgotten(experiment):
    first = best_network(experiment, source=experiment.source)
    (experiment.path / "best" / "best.json").unlink()
    assert known_test_accuracies(experiment) == {first.id: first.test_accuracy}
