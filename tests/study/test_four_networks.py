"""The paper's Figure 1 in a report: the best network and three of its ancestors, each with its test accuracy."""

import json
import re
import shutil

import pytest

from genepool.analysis import ancestors, four_ancestors
from genepool.experiment import Experiment, best_network, choose_best
from genepool.population import State
from genepool.study import known_test_accuracies
from tests.support.in_process import evolved, genepool

LABEL = re.compile(r"<!-- (test [\d.]+ %|not tested) -->")
"""matplotlib writes each text of an SVG as a comment before its outlines."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """An experiment whose best has dead ancestors, since more than three individuals led to it."""
    settings = ("population.size=3", "training.steps=20", "budget.individuals=30", "experiment.seed=2")
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
    shown = [network.id for network in four_ancestors(history, best.id, {})]
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
    assert best_network(experiment, source=experiment.source()).test_accuracy == measured[best.id]


def test_a_replay_that_disagrees_tests_only_what_still_has_its_weights(experiment):
    version = experiment.path / "config" / "000001.json"
    version.write_text(re.sub(r'"momentum": *0\.9', '"momentum": 0.5', version.read_text()))
    done = genepool("replay", experiment.path, "--test", "--json")
    assert done.returncode == 1
    alive = {row.id for row in experiment.history().finished() if row.state is State.ALIVE}
    agreeing = {link["id"] for link in json.loads(done.stdout)["lineage"] if link["agrees"]}
    assert set(known_test_accuracies(experiment)) <= alive | agreeing
    assert known_test_accuracies(experiment)


def test_tested_ancestors_are_drawn_rather_than_others(experiment):
    history = experiment.history()
    best = choose_best(experiment, history).id
    line = [row.id for row in ancestors(history.rows, best)]
    networks = {row.dna.in_a_line(): row.id for row in ancestors(history.rows, best)}
    ends = {line[0], networks[history.rows[line[0]].dna.in_a_line()], best}
    between = [name for name in networks.values() if name not in ends]
    tested = dict.fromkeys(between[-2:], 0.5)
    assert len(tested) == 2, "the lineage has too few networks for this test"
    shown = four_ancestors(history, best, tested)
    assert [network.id for network in shown] == [line[0], *tested, best]
    assert [network.test for network in shown] == [None, 0.5, 0.5, None]


def test_a_later_best_does_not_make_the_test_of_a_former_one_forgotten(experiment):
    first = best_network(experiment, source=experiment.source())
    (experiment.path / "best" / "best.json").unlink()
    assert known_test_accuracies(experiment) == {first.id: first.test_accuracy}
