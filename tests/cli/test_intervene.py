"""`genepool intervene` on a real evolution with real workers, and what the other verbs then tell of it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from genepool.evolution import Intervention
from genepool.experiment import Experiment
from genepool.settings import override, preset
from tests.support.in_process import genepool, work_on
from tests.support.processes import wait_until

GENEPOOL = str(Path(sys.executable).parent / "genepool")


@pytest.fixture(scope="module")
def shaken(tmp_path_factory):
    """A population of six that went through more mutations and a reset of its weights."""
    directory = tmp_path_factory.mktemp("shaken") / "experiment"
    first = genepool(
        "run", directory, "--preset", "faithful", "--workers", 1, "--population", 6, "--steps", 15, "--individuals", 10,
        "--time", "none", "--set", "escape.alarm=1", "--set", "population.durability=fast",
        "--set", "training.validation_images=200",
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    said = [
        genepool("intervene", directory, "--mutations", 5, "--for", 6),
        genepool("run", directory, "--individuals", 20),
        genepool("intervene", directory, "--reset-weights", "--population", 5),
        genepool("run", directory, "--individuals", 36),
    ]
    assert [done.returncode for done in said] == [0] * 4, said
    return directory, said


def test_it_says_what_was_published_and_workers_obey(shaken):
    directory, said = shaken
    assert said[0].stdout == "settings version 2: 5 mutations for 6 individuals\n"
    assert said[2].stdout.endswith(": weights reset, population 5\n")
    rows = Experiment.open(directory).history().finished()
    assert [len(row.birth.mutations) for row in rows[10:20]] == [5] * 6 + [1] * 4
    assert sum(row.birth.mutations == ("renewal",) for row in rows) >= 5
    assert {row.evaluation.inherited for row in rows if row.birth.mutations == ("renewal",)} == {()}
    assert genepool("check", directory).returncode == 0


def test_status_tells_who_did_what_and_when(shaken):
    directory, _ = shaken
    facts = json.loads(genepool("status", directory, "--json").stdout)
    assert [done["what"] for done in facts["interventions"]] == ["5 mutations", "weights reset, population 5"]
    assert all(done["who"] and done["when"] > 1e9 and done["version"] > 1 for done in facts["interventions"])
    told = genepool("status", directory).stdout
    assert "intervention 20" in told
    assert "weights reset, population 5" in told


def test_the_log_lines_tell_of_the_alarm(shaken):
    _, said = shaken
    assert "ALARM: " in said[1].stderr + said[3].stderr or "5 mutations per reproduction until" in said[1].stderr


def test_whoever_came_through_it_can_be_replayed(shaken):
    directory, _ = shaken
    rows = Experiment.open(directory).history().finished()
    renewed = next(row for row in reversed(rows) if row.birth.mutations == ("renewal",))
    done = genepool("replay", directory, renewed.id)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "renewal" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "No intervention given"),
        (["--mutations", 5], "need an end"),
        (["--for", "10m", "--population", 4], "need an end"),
        (["--mutations", 5, "--for", "soon"], "is not a time"),
        (["--mutations", 5, "--for", "0"], "too short"),
        (["--mutations", 5, "--for", "9" * 5000], "too long"),
    ],
)
def test_bad_input_gets_a_sentence_and_changes_nothing(words, sentence, shaken):
    directory, _ = shaken
    before = Experiment.open(directory).version()
    done = genepool("intervene", directory, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert Experiment.open(directory).version() == before


def test_there_must_be_an_experiment(tmp_path):
    done = genepool("intervene", tmp_path, "--population", 9)
    assert done.returncode == 2
    assert "There is no experiment" in done.stderr


@pytest.mark.thorough
def test_it_is_obeyed_by_workers_at_work_and_ends_though_they_are_killed_in_between(tmp_path):
    directory = tmp_path / "e"
    settings = [
        "population.size=4",
        "training.steps=50",
        "budget.individuals=40",
        "budget.time=none",
        "population.lease=1",
        "training.validation_images=200",
    ]
    experiment = Experiment.create(directory, override(preset("faithful"), [*settings, "population.durability=fast"]))

    def finished():
        return len(experiment.history().finished())

    worker = subprocess.Popen([GENEPOOL, "worker", directory], stderr=subprocess.DEVNULL)
    wait_until(lambda: finished() >= 6)
    worker.send_signal(signal.SIGSTOP)  # or it might be far ahead by the time that we have looked and spoken
    spent = experiment.history().spending()
    experiment.intervene(Intervention(mutations=5, individuals=12), spent)
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: finished() >= spent.individuals + 4)
    worker.kill()
    worker.wait()
    work_on(experiment)
    rows = sorted(experiment.history().rows.values(), key=lambda row: row.birth.created)
    told = "".join(str(len(row.birth.mutations)) for row in rows).lstrip("0")
    assert re.fullmatch("1*5{8,13}1+", told), told
