"""Changes that a plan makes in running experiments: when they come, by which clock, and how they are compared."""

from importlib import import_module

import msgspec
import pytest

from genepool.evaluation import Evaluation, Trained
from genepool.evolution import Budget, Surroundings
from genepool.experiment import BestNetwork, Experiment, StopCondition
from genepool.settings import override, preset
from genepool.study.outcome import Outcome, PlannedChange, around, splits
from genepool.study.plan import Change
from genepool.study.records import Follower, read_changes
from genepool.study.statistics import NONE_BORN, after_changes
from genepool.testing.toy_evaluator import ToyEvaluator

FIVE, ONE = {"breeding.mutations": 5}, {"breeding.mutations": 1}


class Scripted:
    """An evaluator whose fitness is that of a list, in the order of the trainings; `during` is called in each."""

    def __init__(self, fitness, during=lambda: None):
        self._fitness, self._toy, self._during = iter(fitness), ToyEvaluator(steps=1), during

    def evaluate(self, request, observe):
        self._during()
        trained = self._toy.evaluate(request, observe)
        return Trained(Evaluation(fitness=next(self._fitness), flops=1), trained.weights)


def created(path, *settings):
    rules = ["population.durability=fast", "population.size=4", "budget.time=none", *settings]
    return Experiment.create(path, override(preset("faithful"), rules))


def evolve(experiment, evaluator, follower):
    """One worker in this process; the study looks before each of its steps."""
    stop = StopCondition(experiment)

    def reason():
        follower.look()
        return stop()

    surroundings = Surroundings(reason_to_stop=reason, budget_use=stop.budget_use)
    worker = experiment.worker(0, lambda version: evaluator, surroundings, spent=stop.spent)
    worker.run()
    worker.population.close()


def test_a_change_waits_until_nothing_better_has_come_for_so_many_individuals(tmp_path):
    experiment = created(tmp_path / "run", "budget.individuals=40")
    rising, flat = [0.01 * i for i in range(1, 11)], [0.05] * 8
    worse = [0.02, *[0.01] * 5]  # only what is born after a change counts for the next plateau
    follower = Follower(
        experiment,
        (Change(when="plateau", individuals=8, set=FIVE), Change(when="plateau", individuals=5, set=ONE)),
    )
    evolve(experiment, Scripted([*rising, *flat, *worse, *[0.2] * 40]), follower)
    first, second = read_changes(experiment.path)
    assert (first.individuals, first.why, first.version) == (18, "plateau", 2)
    assert (second.individuals, second.why, second.version) == (24, "plateau", 3)


def test_without_a_plateau_a_change_is_made_at_its_share_of_the_budget_at_the_latest(tmp_path):
    experiment = created(tmp_path / "run", "budget.individuals=20")
    never, later = (Change(when="plateau", individuals=100, spent=s, set=v) for s, v in ((0.5, FIVE), (0.75, ONE)))
    evolve(experiment, Scripted(0.01 * i for i in range(30)), Follower(experiment, (never, later)))
    assert [(c.individuals, c.why, c.share) for c in read_changes(experiment.path)] == [
        (10, "spent", 0.5),
        (15, "spent", 0.75),
    ]


def test_a_reset_that_was_published_before_a_crash_is_not_repeated(tmp_path):
    experiment = created(tmp_path / "run", "budget.individuals=12")
    changes = tuple(Change(spent=spent, reset_weights=True) for spent in (0.25, 0.5, 0.75))
    for number in (1, 2, 3):  # a new follower finds the reset in the settings, but not in its own file
        evolve(experiment_of(experiment, 3 * number), Scripted([0.5] * 40), Follower(experiment, changes[:number]))
        Follower(experiment, changes[:number]).look()
        done = read_changes(experiment.path)
        (experiment.path / "changes.json").write_bytes(msgspec.json.encode(done[: number - 1]))
        Follower(experiment, changes[:number]).look()
        assert [change.version for change in read_changes(experiment.path)] == list(range(2, 2 + number))
    assert experiment.settings().escape.reset_version == 4


def experiment_of(experiment, individuals):
    """The same experiment, with a worker that leaves after so many individuals."""

    class Limited(Experiment):
        def settings(self, version=None):
            found = super().settings(version)
            return msgspec.structs.replace(found, budget=Budget(individuals=individuals))

    return Limited.open(experiment.path)


class Clock:
    """A clock for everything that measures a run."""

    def __init__(self):
        self.now = 1e9

    def time(self):
        return self.now

    monotonic = time


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in ("genepool.analysis.spending", "genepool.study.records"):
        monkeypatch.setattr(import_module(module), "time", clock)
    return clock


def test_changes_go_by_the_clock_that_ends_the_experiment(tmp_path, clock):
    """A training in progress counts for the budget, and so for changes: a phase of 30 % is 30 % of the time."""
    experiment = created(tmp_path / "run", "budget.time=100")
    changes = (Change(spent=0.4, set=FIVE), Change(spent=0.7, set=ONE), Change(spent=0.9, reset_weights=True))
    follower, seen = Follower(experiment, changes), {}

    def during():
        if not seen:  # the first and only training takes the whole budget
            for second in range(5, 101, 5):
                clock.now += 5
                follower.look()
                seen[second] = experiment.settings().breeding.mutations

    evolve(experiment, Scripted([0.5] * 10, during), follower)
    assert [second for second, mutations in seen.items() if mutations == 5] == list(range(40, 70, 5))
    made = read_changes(experiment.path)
    assert [round(change.share, 2) for change in made] == [0.4, 0.7, 0.9]
    assert around(experiment.history(), made) == (0.0, None), "the only individual was born before the changes"
    outcome = outcome_of("changed", 1, changes=made, planned=3, around_changes=(0.0, None))
    assert after_changes([outcome]) == [("sign test, changed", NONE_BORN)]
    assert NONE_BORN == "No individual was born after the last change."


def test_the_time_in_which_nothing_is_trained_is_not_spent(tmp_path, clock):
    experiment = created(tmp_path / "run", "budget.time=100")
    follower = Follower(experiment, (Change(spent=0.4, set=FIVE),))
    for _ in range(30):  # no worker comes
        clock.now += 5
        follower.look()
    assert not read_changes(experiment.path)


def outcome_of(arm, seed, **fields):
    best = BestNetwork(
        id="x", fitness=0.5, test_accuracy=0.5, parameters=1, network="", learning_rate=0.1, individuals=10, flops=10,
        seconds=1.0, weights="",
    )  # fmt: skip
    return Outcome(arm=arm, seed=seed, best=best, curve=((1.0, 0.5),), useful=0.5, **fields)


def change_at(share, why="spent"):
    return PlannedChange(
        set=FIVE, seconds=1.0, flops=1, individuals=1, finished_share=share - 0.1, share=share, why=why
    )


def test_the_sign_test_covers_the_unchanged_arm_at_the_same_moment_and_says_what_it_compared():
    # Until 30 % and after 60 % of the budget, by finished individuals, the unchanged arm has 0.3 and 0.7.
    course = tuple((percent / 100, 0.1 + percent / 100) for percent in range(101))
    outcomes = []
    for seed in range(1, 6):
        outcomes.append(outcome_of("unchanged", seed, splits=course))
        changes = (change_at(0.4, "plateau"), change_at(0.7))
        outcomes.append(outcome_of("changed", seed, changes=changes, planned=2, around_changes=(0.6, 0.5)))
    (_, unchanged), (_, changed) = after_changes(outcomes)
    assert "5 better, 0 worse, 0 equal; one-sided p = 0.0312" in unchanged
    assert "after 70 % of the budget" in unchanged and "before 40 %" in unchanged and "same seed" in unchanged
    assert "0 better, 5 worse, 0 equal; one-sided p = 1" in changed and "before the first" in changed
    assert "5 of 10 changes were made at a plateau" in changed
    late = outcome_of("changed", 6, changes=(change_at(0.4),), planned=2, around_changes=(0.6, 0.9))
    assert "In 1 of 6 the budget was spent before the last change was due" in after_changes([*outcomes, late])[1][1]


def test_an_experiment_is_split_by_the_individuals_born_after_a_moment(tmp_path):
    experiment = created(tmp_path / "run", "budget.individuals=10")
    evolve(experiment, Scripted(0.1 * i for i in (1, 2, 3, 4, 5, 4, 3, 2, 1, 0)), Follower(experiment))
    found = splits(experiment.history(), experiment.settings().budget)
    assert len(found) == 101 and found[0] == (0.0, 0.5) and found[100] == (0.5, None)
    assert found[40] == (pytest.approx(0.4), 0.5) and found[60] == (0.5, pytest.approx(0.3))
