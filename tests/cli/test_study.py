"""`genepool study` through the command line, with real workers on the shipped images."""

import json
import os
import signal
import subprocess
import sys

import pytest

from genepool.study import begin_study, read_plan, read_study
from tests.support.in_process import genepool
from tests.support.processes import wait_until

PLAN = """
about = "Two arms."
repeats = 2
preset = "paper"

[settings]
data.source = "fashion-mini"
population.size = 3
population.durability = "fast"
workers.count = 1
training.steps = 10
budget.individuals = 6
training.validation_images = 100

[arms.evolution]

[arms."random selection"]
population.selection = "random"

[[points]]
label = "somebody else"
flops = 1e9
accuracy = 0.5
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_a_study_that_is_killed_goes_on_and_runs_all_arms_and_repeats_once(plan, tmp_path):
    folder = tmp_path / "out"
    once = ("study", str(plan), "--out", str(folder), "--repeats", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "genepool", *once], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    outcome = folder / "evolution" / "seed-1" / "outcome.json"
    wait_until(outcome.exists)
    os.killpg(process.pid, signal.SIGKILL)
    assert "0 done, 1 running, 1 waiting" in process.communicate()[1]
    before = outcome.read_bytes()
    done = genepool(*once, "--json")
    assert done.returncode == 0, done.stderr
    assert outcome.read_bytes() == before
    lines = json.loads(done.stdout)
    assert [line["arm"] for line in lines] == ["evolution", "random selection"]
    assert all(line["individuals"] >= 6 and line["flops"] > 0 and 0 < line["test"] < 1 for line in lines)
    assert (folder / "report" / "economy.png").stat().st_size > 10_000

    report = {path.name: path.read_bytes() for path in (folder / "report").iterdir()}
    again = genepool(*once)  # everything is finished: nothing runs
    assert again.returncode == 0 and "running" not in again.stderr
    assert report == {path.name: path.read_bytes() for path in (folder / "report").iterdir()}

    more = genepool("study", folder, "--repeats", 2)  # the first is not run again
    assert more.returncode == 0, more.stderr
    assert "seed-1" not in more.stderr, more.stderr
    assert "2 done, 1 running, 1 waiting" in more.stderr
    assert "random selection" in more.stdout and "±" in more.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arms = 3", "is not one"),
        ("[arms.a]\nstepps = 3", "did you mean 'training.steps'"),
        ("[arms.a]\n[settings]\ntraining.steps = 'many'", "arm 'a'"),
        ('[arms."../a"]', "cannot be called"),
        ("repeats = 0\n[arms.a]", "at least one"),
        ("[arms.a]\n[settings.budget]\ntime = 'none'", "would never end"),
        ("arms = [", "is not TOML"),
        ("[arms.a]\nchanges = [{spent = 2, set = {breeding.mutations = 5}}]", "between 0 and 1"),
        ("[arms.a]\nchanges = [{spent = 0.5, set = {experiment.seed = 5}}]", "cannot change"),
        ("[arms.a]\nchanges = [{spent = 0.5, set = {mutatoins = 5}}]", "breeding.mutations"),
        ("[arms.a]\nchanges = 5", "not valid"),
        ("[arms.a]\nchanges = [{set = {breeding.mutations = 5}}]", "needs `spent`"),
        ("[arms.a]\nchanges = [{when = 'plateau', set = {breeding.mutations = 5}}]", "belong together"),
        (
            "[arms.a]\nchanges = [{spent = 0.5, reset_weights = true}, {spent = 0.4, reset_weights = true}]",
            "larger than in the change before",
        ),
        ("[arms.a]\n[scales.laptop]\nonly = ['b']", "no such arm"),
        ('statistics = ["meen"]\n[arms.a]', "mean"),
        ('figure = "dependence"\n[arms.a]', "against"),
        ('figure = "dependence"\nagainst = "stepps"\n[arms.a]', "stepps"),
        ('[arms."a b"]\n[arms.a-b]', "differ only"),
        ("[arms.a]\n[scales.laptop.arms.b]", "no such arm"),
    ],
)
def test_a_bad_plan_is_one_sentence(text, words, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    done = genepool("study", str(path), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_a_folder_holds_one_plan(plan, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text('{"arms": {"other": {}}}')
    done = genepool("study", str(plan), "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and "another plan" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "training.stepps=3"), "did you mean 'training.steps'"),
        (("--set", "training.steps=3"), "another plan"),
        (("--preset", "laptop"), "another plan"),
        (("--preset", "papper"), "paper"),
        (("--only", "nothing"), "no arm"),
        (("--address", "auto"), "need --engine ray"),
        (("--memory", "much"), "not an amount of memory"),
    ],
)
def test_what_a_study_in_a_folder_cannot_become_is_one_sentence(words, message, plan, tmp_path):
    begin_study(read_plan(str(plan)), tmp_path / "out")
    done = genepool("study", tmp_path / "out", *words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("*/seed-*"))


def test_the_plan_has_the_values_of_the_command_line(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("genepool.study.run_study", lambda *_: sys.exit(0))
    words = ("--set", "training.steps=11", "--set", "breeding.odds.identity=3", "--preset", "faithful")
    assert genepool("study", plan, "--out", tmp_path / "out", *words, "--time", "none").returncode == 0
    settings = read_study(tmp_path / "out")[0].settings_of("evolution", 1)
    assert settings.training.steps == 11 and settings.breeding.odds["identity"] == 3
    assert settings.budget.individuals == 6 and settings.population.lease == 60  # the plan's, and the preset's
    assert settings.budget.time is None


def test_a_preset_replaces_the_plans_and_is_in_the_folders_name_and_in_the_report(plan, tmp_path):
    done = genepool("study", plan, "--preset", "faithful", "--only", "evolution", "--repeats", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    label = "fashion-mini, preset faithful, population 3, 10 steps. Departures from the paper: none."
    assert label in done.stderr, "before anything runs"
    folder = tmp_path / "studies" / "plan-faithful"
    assert label in (folder / "report" / "report.html").read_text()
    assert genepool("study", plan, "--preset", "fathful", cwd=tmp_path).returncode == 2


def test_shipped_plans_are_listed_and_valid():
    done = genepool("study")
    assert done.returncode == 0 and "yield" in done.stdout


def test_an_unknown_plan_names_the_nearest():
    done = genepool("study", "yeild")
    assert done.returncode == 2 and "yield" in done.stderr
