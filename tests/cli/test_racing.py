"""A real evolution with races and averages, and the replay of individuals that were raced."""

import json

import pytest

from genepool.experiment import Experiment
from tests.support.in_process import genepool

BUDGETS = {
    "steps": ("--steps", 120, "--individuals", 4, "--set", "budget.time=none"),
    "time": (
        "--time",
        "12s",
        "--set",
        "limits.child_steps=none",
        "--set",
        "training_budget.first_share=0.1",
        "--set",
        "final_phase.share=0",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("budget", BUDGETS)
def test_individuals_that_were_raced_say_so_and_replay(budget, tmp_path):
    directory = tmp_path / "experiment"
    sets = (
        "training_budget.racing=0.5",
        "training.averaging=0.25",
        "breeding.odds.grow-convolution=1000",
    )  # growth clearly wins at first
    extras = ("--workers", 1, "--population", 2, "--seed", 2, *(word for one in sets for word in ("--set", one)))
    result = genepool("run", directory, *extras, *BUDGETS[budget])
    assert result.returncode == 0, result.stderr
    more = iter(("1m", "5m", "20m"))  # in 12 s a busy machine may train no child with a rival
    while not (raced := [row for row in Experiment.open(directory).history().finished() if row.evaluation.raced]):
        assert budget == "time"
        result = genepool("run", directory, "--time", next(more))
        assert result.returncode == 0, result.stderr
    assert all(row.birth.parents and row.birth.training_budget["race"]["rival"] > 0 for row in raced)
    decided = [row for row in raced if row.evaluation.raced != "kept"]
    assert decided or budget == "time"  # on a slow machine there is no time to win clearly
    for row in decided:
        assert row.evaluation.step_decisions[-1][1] == row.evaluation.steps
    deepest = max(decided or raced, key=lambda row: row.result.finished)
    again = genepool("replay", directory, deepest.id, "--json")
    assert again.returncode == 0, again.stderr + again.stdout
    assert json.loads(again.stdout)["agrees"] is True


def test_a_race_that_would_begin_after_the_end_is_refused(tmp_path):
    result = genepool("run", tmp_path / "experiment", "--set", "training_budget.racing=1.5")
    assert result.returncode == 2
    assert "The setting training_budget.racing is 1.5, but must be at most 0.95, or none." in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "experiment").exists()
