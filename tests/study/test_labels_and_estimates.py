"""What a study says of itself before it runs: its rules, and what it would take."""

import json

import msgspec
import pytest

from genepool.settings import PRESETS, by_name, departures, marked, override, preset, rules_label
from genepool.study import estimate_study, read_plan, shipped_plans
from tests.support.in_process import genepool


def test_a_label_names_the_preset_and_all_departures():
    plan = read_plan("repeatability")
    for name in departures(PRESETS["laptop"]).keys() - {
        "final_phase.share",
        "final_phase.parallel",
    }:  # which it switches off
        assert f"{name}=" in plan.label()
    assert "fashion-mini, preset laptop" in plan.label() and "final_phase" not in plan.label()
    faithful = msgspec.structs.replace(plan, preset="faithful")
    assert "preset faithful" in faithful.label() and faithful.label().endswith("Departures from the paper: none.")


@pytest.mark.parametrize("name", ["paper", "lab", "faithful"])
def test_presets_with_the_papers_rules_have_no_departures(name):
    assert not departures(PRESETS[name])


def test_the_departures_of_laptop_are_all_its_marked_differences():
    paper, laptop = by_name(PRESETS["paper"]), by_name(PRESETS["laptop"])
    differing = {name for name in paper if paper[name] != laptop[name]}
    assert departures(PRESETS["laptop"]).keys() == differing & set(marked())
    assert {"population.set_point", "limits.redraw", "training.inheritance"} <= set(marked())


def test_an_experiment_whose_preset_is_not_recorded_names_the_nearest():
    assert ", preset laptop," in rules_label(override(preset("laptop"), ["experiment.seed=5", "budget.time=9"]))
    assert "nearest preset laptop" in rules_label(override(preset("laptop"), ["training.nesterov=false"]))
    assert ", preset faithful," in rules_label(preset("faithful"))


def test_the_escape_plans_are_the_papers():
    resets = read_plan("weight-reset-escape", "paper")
    assert resets.repeats == 10 and resets.settings_of("three resets", 1).population.size == 50
    assert [(c.reset_weights, c.when) for c in resets.changes("three resets")] == [(True, "plateau")] * 3
    rate = read_plan("mutation-rate-escape", "paper")
    assert rate.repeats == 10 and rate.settings_of("five for a while", 1).population.size == 100
    assert [(c.set, c.when) for c in rate.changes("five for a while")] == [
        ({"breeding.mutations": 5}, "plateau"),
        ({"breeding.mutations": 1}, "plateau"),
    ]
    for plan in (resets, rate):
        assert plan.settings_of(next(iter(plan.arms)), 1).training.steps == 2560


def test_a_laptop_compares_only_populations_whose_workers_it_can_run():
    laptop, paper = read_plan("population-size"), read_plan("population-size", "paper")
    assert max(laptop.settings_of(arm, 1).population.size for arm in laptop.arms) <= 20
    assert list(paper.arms) == ["2", "10", "50", "100", "1000"]


def test_an_estimate_of_the_papers_plan_has_the_papers_numbers():
    done = genepool("study", "repeatability", "--scale", "paper", "--estimate", "--flops-per-second", "1e12", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    arms = {arm["arm"]: arm for arm in found["arms"]}
    assert found["repeats"] == 5 and "preset paper" in found["rules"]
    assert all(arm["workers"] == 250 and arm["budget_seconds"] == 256 * 3600 for arm in arms.values())
    assert {name: arm["flops"] for name, arm in arms.items()} == {
        "evolution": 9e19,
        "random selection": 2e17,
        "no inheritance": 9e19,
    }
    assert arms["evolution"]["seconds"] == pytest.approx(9e19 / (250 * 1e12))
    page = genepool("study", "repeatability", "--scale", "paper", "--estimate", "--flops-per-second", "1e12").stdout
    for words in ("experiments  15", "9e20 in total", "on 250 workers", "disk", "memory", "published by the paper"):
        assert words in page
    assert "Departures from the paper: none." in page


def test_every_shipped_plan_can_be_estimated_and_workers_are_a_quarter_of_the_population():
    for name in shipped_plans():
        for arm in estimate_study(read_plan(name, "paper") if name != "yield" else read_plan(name),
                                   flops_per_second=1e11).arms:  # fmt: skip
            assert 0 < arm.individuals[0] <= arm.individuals[1] and arm.flops > 0 and arm.disk > 0 and arm.memory > 0
            assert name == "yield" or arm.workers == max(1, arm.population // 4)


def test_a_budget_in_flops_or_individuals_is_taken_as_it_is():
    plan = read_plan("repeatability")
    settings = {**plan.settings, "budget.time": None}
    by_flops = msgspec.structs.replace(plan, settings={**settings, "budget.flops": 1e12})
    by_count = msgspec.structs.replace(plan, settings={**settings, "budget.individuals": 50})
    assert estimate_study(by_flops, flops_per_second=1e10).arms[0].flops == 1e12
    assert estimate_study(by_count, flops_per_second=1e10).arms[0].individuals == (50, 50)


@pytest.mark.thorough
def test_without_a_speed_this_machine_is_measured(monkeypatch):
    monkeypatch.setattr("genepool.study.estimate.MEASURED_FOR", 0.3)
    done = genepool("study", "repeatability", "--preset", "faithful", "--estimate")
    assert done.returncode == 0, done.stderr
    assert "measured here" in done.stdout and "preset faithful" in done.stdout
    assert "Departures from the paper: none." in done.stdout
