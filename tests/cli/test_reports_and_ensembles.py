"""A small real study, and what is made of it: its statistics, its report, an ensemble of its best networks."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from genepool.analysis import diagram
from genepool.data import prepare
from genepool.dna import initial
from genepool.errors import DataError
from genepool.evolution import Surroundings
from genepool.experiment import Experiment, StopCondition
from genepool.settings import override, preset
from genepool.study import read_plan, read_study, shipped_plans
from genepool.study.records import Follower
from genepool.study.report.experiment import comparison
from genepool.study.statistics import correlation, sign_test
from genepool.workers import WorkerPool
from tests.support.in_process import genepool

INDIVIDUALS = 40
PLAN = f"""
about = "Is <script>alert(1)</script> | a [link](http://x) evil?"
repeats = 2
preset = "paper"
statistics = ["mean", "correlation", "sign-test", "flops"]
figure = "escape"

[settings]
data.source = "fashion-mini"
population.size = 3
population.durability = "fast"
workers.count = 1
training.steps = 40
training.validation_images = 100
budget.individuals = {INDIVIDUALS}

[[arms."five mutations".changes]]
spent = 0.3
set = {{ breeding.mutations = 5 }}

[[arms."five mutations".changes]]
spent = 0.6
set = {{ breeding.mutations = 1 }}

[[arms."five mutations".changes]]
spent = 0.8
reset_weights = true
"""


followers: list[Follower] = []


class KnownFollower(Follower):
    """The study's own; the worker asks it to look before every step. `test_study.py` has worker processes."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        followers.append(self)


class PoolHere(WorkerPool):
    """One worker in this process, which spends the whole budget when the study first tends it."""

    restarts, count = 0, 1

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment

    def tend(self) -> bool:
        stop, data = StopCondition(self._experiment), prepare(self._experiment.source())

        def reason():
            followers[-1].look()
            return stop()

        surroundings = Surroundings(reason_to_stop=reason, budget_use=stop.budget_use)
        evaluators, limits = self._experiment.evaluators(data, "cpu"), self._experiment.child_limits(data)
        worker = self._experiment.worker(0, evaluators, surroundings, limits, stop.spent)
        worker.run()
        worker.population.close()
        followers[-1].look()
        return False

    def start(self) -> None: ...

    def running(self) -> int:
        return 0

    def _request_stop(self, patience: float) -> None: ...

    def end(self) -> None: ...


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "a<b>&c"
    plan = folder.parent / "plan.toml"
    plan.write_text(PLAN)
    with pytest.MonkeyPatch.context() as within:
        within.setattr(Experiment, "pool", lambda experiment, **_: PoolHere(experiment))
        within.setattr("genepool.study.run.Follower", KnownFollower)
        done = genepool("study", plan, "--out", folder)
    assert done.returncode == 0, done.stderr
    before = done.stderr.index("sign-test")
    assert before < done.stderr.index("waiting"), "the statistics are printed before anything runs"
    assert "one-sided p" in done.stdout and "FLOPs of all experiments" in done.stdout
    return folder


def test_settings_change_where_the_plan_says_so(study):
    _, outcomes = read_study(study)
    for outcome in outcomes:
        changes = [change.set for change in outcome.changes]
        assert changes == [{"breeding.mutations": 5}, {"breeding.mutations": 1}, {"reset_weights": True}]
        first, second, third = (change.individuals for change in outcome.changes)
        assert (first, second, third) == (0.3 * INDIVIDUALS, 0.6 * INDIVIDUALS, 0.8 * INDIVIDUALS)
        assert outcome.settings["breeding.mutations"] == 1
        before, after = outcome.around_changes
        assert 0 < before < 1 and 0 < after < 1
    history = Experiment.open(study / "five-mutations" / "seed-1").history()
    assert {row.birth.settings_version for row in history.finished()} >= {1, 2}
    assert any(row.birth.mutations == ("renewal",) for row in history.finished()), "somebody was trained anew"


def test_whoever_sets_a_validation_record_is_tested_and_the_last_one_is_reported(study):
    _, outcomes = read_study(study)
    for outcome in outcomes:
        fitness = [record.validation for record in outcome.records]
        assert fitness == sorted(set(fitness)), "each is higher than all before"
        tested = [record for record in outcome.records if record.test is not None]
        assert tested == list(outcome.records), "nobody was collected before the study looked"
        assert (outcome.validation, outcome.test_accuracy) == (tested[-1].validation, tested[-1].test)
        assert outcome.validation >= outcome.best.validation_accuracy, "who lives at the end could be tested"
        if outcome.id == outcome.best.id:  # of several equal ones, another may be the one that lives
            assert outcome.test_accuracy == outcome.best.test_accuracy  # by another path: the model that was kept
    assert not list(study.rglob("records")), "the copies of weights are gone once the outcome is written"


def test_the_same_study_gives_the_same_report(study, tmp_path):
    # In another process: the order of sets, for one, is another there.
    command = [sys.executable, "-m", "genepool", "report", study, "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "5"})
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == sorted(path.name for path in (study / "report").iterdir())
    for name in files:
        assert (tmp_path / name).read_bytes() == (study / "report" / name).read_bytes(), name
    assert {"escape.svg", "escape.png", "escape.csv", "economy.png", "progress.svg", "ancestry.png"} <= set(files)


def test_a_report_is_one_page_that_runs_nothing_and_loads_nothing(study):
    page = (study / "report" / "report.html").read_text()
    assert "<script" not in page and "a<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "a&lt;b&gt;&amp;c" in page
    assert "src=" in page and page.count("src=") == page.count('src="data:image/png;base64,')
    assert "default-src 'none'" in page
    text = (study / "report" / "report.md").read_text()
    assert "<script" not in text and "&lt;script&gt;" in text and r"\[link\]\(" in text and "http://x" not in text
    for words in ("What was asked", "Lineage of the best", "DenseNet", "Q-Learning", "torch", "seeds 1 to 2"):
        assert words in page and words in text


def test_the_report_and_all_its_figures_name_preset_and_departures(study):
    label = read_study(study)[0].label()
    assert label.startswith("fashion-mini, preset paper, population 3, 40 steps. Departures from the paper:")
    assert label in (study / "report" / "report.html").read_text()
    for name in ("escape", "economy", "progress", "ancestry"):
        drawn = (study / "report" / f"{name}.svg").read_text()  # texts are comments before their outlines
        assert "preset paper" in drawn and "Departures from the paper" in drawn, name


def test_the_rows_of_a_figure_are_those_of_the_experiment(study):
    _, outcomes = read_study(study)
    with (study / "report" / "escape.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(outcome.best.individuals for outcome in outcomes)
    # The chosen may not be the fittest ever: of one that the reset ended moments after its birth no weights were kept.
    assert {outcome.validation for outcome in outcomes} <= {float(row["fitness"]) for row in rows}


def test_the_papers_second_table_has_all_its_columns(study):
    text = (study / "report" / "report.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| RL |")]
    assert "| study | starting point | constraints | post-processing | parameters |" in text
    assert ["exactly 20 layers" in rows[0], "2 pool layers at 13 and 26 | add more filters" in rows[1]] == [True, True]
    assert "| single layer, zero convs. | power-of-2 strides | none |" in text
    assert "This report |" not in text, "these are other images"


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("paper", ("single layer, zero convs.", "power-of-2 strides", "none")),
        (
            "laptop",
            (
                "single layer, zero convs.",
                "power-of-2 strides, widths in multiples of 16, step time of children",
                "final phase (40 % of the budget)",
            ),
        ),
    ],
)
def test_a_line_of_our_own_states_the_constraints_that_were_in_force(name, conditions):
    section = comparison(override(preset(name), ["data.source=cifar-10"]), "80.00 %", "0.1 M")
    assert section.blocks[-1].rows[-1] == ("This report", *conditions, "0.1 M", "80.00 %", "-")


def test_an_experiment_has_a_report_too(study, tmp_path):
    directory = study / "five-mutations" / "seed-1"
    done = genepool("report", directory, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "report.md").read_text()
    best = json.loads((directory / "best" / "best.json").read_bytes())
    assert f"{100 * best['test_accuracy']:.2f} %" in text and best["id"] in text


@pytest.mark.parametrize("damage", ["nothing there", "half a record", "half a plan", "no experiment finished"])
def test_what_cannot_be_reported_is_one_sentence(damage, study, tmp_path):
    copy = tmp_path / "copy"
    outcome = copy / "five-mutations" / "seed-1" / "outcome.json"
    if damage != "nothing there":
        shutil.copytree(study, copy)
    if damage == "half a record":
        outcome.write_bytes(outcome.read_bytes()[:100])
    if damage == "half a plan":
        (copy / "plan.json").write_bytes(b'{"arms": {')
    if damage == "no experiment finished":
        shutil.rmtree(copy / "five-mutations")
    done = genepool("report", copy, "--out", tmp_path / "out")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "copy" in done.stderr


def test_a_missing_experiment_is_left_out_of_the_report_and_told(study, tmp_path):
    shutil.copytree(study, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "five-mutations" / "seed-2")
    assert genepool("report", tmp_path / "copy").returncode == 0
    assert "1 of them are finished" in (tmp_path / "copy" / "report" / "report.md").read_text()


def test_an_ensemble_equals_a_vote_counted_by_hand(study, tmp_path):
    from genepool.data import open_source, prepare
    from genepool.experiment import model_to_export
    from genepool.export import read_model

    directories = [study / "five-mutations" / f"seed-{seed}" for seed in (1, 2)]
    done = genepool("ensemble", *directories, "--format", "source", "--out", tmp_path / "all", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    source = open_source("fashion-mini")
    images, data = source.held_out(), prepare(source)
    answers = []
    for number, member in enumerate(made["members"]):
        experiment = Experiment.open(directories[number // 2])
        alone = model_to_export(experiment, experiment.history(), [member["id"]], data)
        answers.append(alone.network.predict(images.pixels))
        accuracy = np.mean([a.argmax() == label for a, label in zip(answers[-1], images.labels, strict=True)])
        assert accuracy == pytest.approx(member["test_accuracy"], abs=1e-3)
    right = 0
    for i, label in enumerate(images.labels):
        votes = Counter(int(answer[i].argmax()) for answer in answers)
        ahead = [name for name, count in votes.items() if count == max(votes.values())]
        right += max(ahead, key=lambda name: sum(answer[i][name] for answer in answers)) == label
    assert right / len(images.labels) == pytest.approx(made["vote_test_accuracy"], abs=1e-3)
    facts, network = read_model(tmp_path / "all")
    average = network.predict(images.pixels)
    assert np.allclose(average, np.mean(answers, axis=0), atol=1e-5)
    assert (average.argmax(1) == images.labels).mean() == pytest.approx(made["average_test_accuracy"], abs=1e-3)
    assert facts.test_accuracy == made["average_test_accuracy"] and len(facts.members) == 4
    for number, directory in enumerate(directories):
        living = [row for row in Experiment.open(directory).history().finished() if row.state.name == "ALIVE"]
        best = sorted((row.fitness for row in living), reverse=True)[:2]
        assert [m["validation_accuracy"] for m in made["members"][2 * number :][:2]] == best


def test_an_ensemble_of_different_images_or_of_one_population_twice_is_refused(study, tmp_path):
    Experiment.create(tmp_path / "other", preset("paper"))
    first = study / "five-mutations" / "seed-1"
    for second, words in ((tmp_path / "other", "same images"), (first, "twice"), (tmp_path / "none", "none")):
        done = genepool("ensemble", first, second, "--out", tmp_path / "all.pt2")
        assert done.returncode == 2 and words in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*.pt2"))
    done = genepool("ensemble", first, "--top", "9", "--out", tmp_path / "all.pt2")
    assert done.returncode == 2 and "living individuals" in done.stderr


def test_statistics_are_those_of_the_books():
    assert sign_test(10, 0) == 1 / 1024  # the paper's ten of ten: p < 0.001
    assert sign_test(8, 2) == pytest.approx(56 / 1024)
    assert sign_test(0, 0) == 1 and sign_test(0, 3) == 1
    assert correlation([(1, 2), (2, 4), (3, 6.0)]) == pytest.approx(1)
    assert correlation([(1, 1), (2, 3), (3, 2)]) == pytest.approx(0.5)
    assert correlation([(1, 1), (1, 2)]) is None and correlation([(1, 1)]) is None


def test_shipped_plans_have_both_scales_and_arms_of_equal_budget():
    for name in shipped_plans():
        for scale in ("laptop", "paper") if name != "yield" else ("laptop",):
            plan = read_plan(name, scale)
            budgets = [plan.settings_of(arm, 1).budget for arm in plan.arms]
            assert len({(b.time, b.flops, b.individuals) for b in budgets}) == 1, name
    laptop = read_plan("repeatability")
    hours = sum(laptop.settings_of(arm, seed).budget.time for arm, seed in laptop.runs()) / 3600
    assert laptop.repeats == 5 and hours <= 0.42, "with a margin for starting and testing, half an hour"
    for scale in ("laptop", "lab", "paper"):
        ten, hundred = (read_plan(name, scale).settings_of("evolution", 1) for name in ("repeatability", "cifar-100"))
        assert msgspec.structs.replace(hundred, data=ten.data) == ten


def test_a_diagram_shows_the_trivial_network_as_the_paper_does():
    shown = diagram("x", 0.2, initial(0.1))
    assert [box.text for box in shown.boxes] == ["Input", "Global Pool", "Output"] and not shown.skips


def test_a_damaged_outcome_is_not_taken_for_a_missing_one(study, tmp_path):
    from genepool.study import read_outcome

    (tmp_path / "outcome.json").write_text("{")
    assert read_outcome(tmp_path / "nothing") is None
    with pytest.raises(DataError, match="remove it"):
        read_outcome(tmp_path)
