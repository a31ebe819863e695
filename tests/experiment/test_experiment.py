"""An experiment's directory: made once, gone on with, its settings changed."""

import time

import msgspec
import pytest

from genepool.analysis import lineage
from genepool.errors import PopulationFormatError, SettingsError, StorageError
from genepool.evaluation import Evaluation, Trained, ignore
from genepool.evolution import Budget, Spending, Surroundings
from genepool.experiment import Experiment, StopCondition
from genepool.settings import changed, override, preset

LAPTOP = override(preset("laptop"), ["population.size=6", "population.durability=fast"])


class Judge:
    """No training: fitness from the DNA and the seed."""

    def evaluate(self, request, observe=ignore):
        dna, seed = request.dna, request.seed
        fitness = min(0.9, 0.2 + 0.1 * len(dna.convs) + seed % 97 / 1e4)
        return Trained(Evaluation(fitness=fitness, flops=1000, seconds=0.5, parameters=20), b"weights")


def evolve(experiment, births):
    """Really evolves in the directory, with one worker, for so many births."""
    judge, before = Judge(), len(experiment.history().finished())

    def enough():
        return "enough" if len(experiment.history().finished()) >= before + births else None

    worker = experiment.worker(0, lambda version: judge, Surroundings(reason_to_stop=enough))
    worker.run()
    worker.population.close()


def test_it_is_made_once_and_then_opened(tmp_path):
    made = Experiment.create(tmp_path / "e", LAPTOP)
    again = Experiment.create(tmp_path / "e", LAPTOP)
    assert again.manifest.uuid == made.manifest.uuid == Experiment.open(tmp_path / "e").manifest.uuid
    assert made.settings() == LAPTOP


@pytest.mark.parametrize("change", [{"data.source": "cifar-10"}, {"experiment.seed": 9}, {"training.batch": 20}])
def test_another_experiment_on_the_same_directory_is_refused_with_the_difference(change, tmp_path):
    Experiment.create(tmp_path / "e", LAPTOP)
    with pytest.raises(SettingsError, match=f"{next(iter(change))} is "):
        Experiment.create(tmp_path / "e", changed(LAPTOP, change))
    with pytest.raises(SettingsError, match="other settings"):
        Experiment.open(tmp_path / "e").set(change)


def test_a_directory_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(PopulationFormatError, match=r"not an experiment; .* give a folder of images with --data"):
        Experiment.create(tmp_path, LAPTOP)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(PopulationFormatError, match="no experiment"):
        Experiment.open(tmp_path)
    with pytest.raises(StorageError, match="cannot be created"):
        Experiment.create(tmp_path / "thesis.txt" / "e", LAPTOP)


def test_a_newer_format_is_told_apart(tmp_path):
    Experiment.create(tmp_path / "e", LAPTOP)
    place = tmp_path / "e" / "experiment.json"
    place.write_text(place.read_text().replace('"format": 2', '"format": 3'))
    with pytest.raises(PopulationFormatError, match="format 3"):
        Experiment.open(tmp_path / "e")


def test_settings_change_by_versions_and_each_individual_tells_its_own(tmp_path):
    experiment = Experiment.create(tmp_path / "e", LAPTOP)
    evolve(experiment, 8)
    assert experiment.set({"breeding.mutations": 3, "population.size": 8}) == 2
    assert experiment.set({"breeding.mutations": 3}) == 2  # nothing changed
    evolve(experiment, 8)
    rows = experiment.history().finished()
    assert [row.birth.settings_version for row in rows] == [1] * 8 + [2] * 8
    assert {len(row.birth.mutations) for row in rows[8:]} == {3}
    assert experiment.settings(1) == LAPTOP
    assert experiment.settings().breeding.mutations == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"population.selection": "tournment"}, "did you mean 'tournament'"),
        ({"population.set_point": "dampd"}, "did you mean 'damped'"),
        ({"breeding.odds": {"add-skp": 1.0}}, "did you mean 'add-skip'"),
        ({"breeding.odds": {"add-skip": 0.0}}, "at least one mutation"),
        ({"stpes": 5}, "did you mean 'training.steps'"),
    ],
)
def test_settings_that_nothing_answers_to_are_refused(change, message, tmp_path):
    experiment = Experiment.create(tmp_path / "e", LAPTOP)
    with pytest.raises(SettingsError, match=message):
        experiment.set(change)
    assert experiment.version() == 1


@pytest.mark.parametrize(
    ("budget", "word"),
    [
        (Budget(time=10), "time"),
        (Budget(individuals=5), "5 individuals"),
        (Budget(flops=1e3), "FLOPs"),
        (Budget(target=0.5), "fitness of 0.5"),
        (Budget(plateau=3), "3 individuals in a row"),
    ],
)
def test_each_budget_ends_an_experiment_when_it_is_spent(budget, word):
    rich = Spending(seconds=10.0, individuals=5, flops=1000, best=0.5, since_best=3)
    poor = Spending(seconds=9.9, individuals=4, flops=999, best=0.49, since_best=2)
    assert word in budget.over(rich)
    assert budget.over(poor) is None
    assert Budget().over(rich) is None
    assert budget.limits_anything
    assert not Budget().limits_anything


def test_the_first_individual_may_exceed_the_time_for_a_while():
    assert Budget(time=1).over(Spending(seconds=30.0)) is None
    assert Budget(time=1).over(Spending(seconds=30.0, individuals=1)) is not None
    assert Budget(time=1).over(Spending(seconds=61.0)) is not None


def test_a_watch_ends_at_the_budget_that_is_in_force(tmp_path):
    experiment = Experiment.create(tmp_path / "e", changed(LAPTOP, {"budget.time": None, "budget.individuals": 12}))
    evolve(experiment, 11)
    watch = StopCondition(experiment)
    assert watch() is None
    evolve(experiment, 1)
    experiment.set({"budget.individuals": 20})
    assert watch() is None
    experiment.set({"budget.individuals": 10})
    assert watch() == "10 individuals have been trained"


@pytest.mark.parametrize("jump", [-86_400.0, 3_600.0, 365 * 86_400.0])
def test_a_clock_that_jumps_does_not_spend_the_time(jump, tmp_path, monkeypatch):
    experiment = Experiment.create(tmp_path / "e", changed(LAPTOP, {"budget.time": 600.0}))
    watch = StopCondition(experiment)
    evolve(experiment, 3)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    evolve(experiment, 3)
    assert watch() is None


def test_a_watch_ends_when_whoever_started_it_is_gone(tmp_path):
    experiment = Experiment.create(tmp_path / "e", changed(LAPTOP, {"budget.time": None}))
    assert StopCondition(experiment, parent=1 << 22)() == "the program that started it is gone"


def test_a_directory_that_is_out_of_reach_for_a_while_ends_no_worker(tmp_path):
    experiment = Experiment.create(tmp_path / "e", changed(LAPTOP, {"budget.time": None, "budget.individuals": 12}))
    troubles = []
    watch = StopCondition(experiment)

    def reason_to_stop():
        return "enough" if len(troubles) >= 2 and experiment.history().finished() else watch()

    def trouble(seconds):
        troubles.append(seconds)
        if len(troubles) == 2:
            (tmp_path / "away").rename(tmp_path / "e")

    worker = experiment.worker(0, lambda version: Judge(), Surroundings(reason_to_stop=reason_to_stop, sleep=trouble))
    (tmp_path / "e").rename(tmp_path / "away")
    assert worker.run() == "enough"
    worker.population.close()
    assert len(troubles) == 2


def test_two_runs_of_one_seed_are_the_same_names_aside(tmp_path):
    histories = []
    for name in "ab":
        experiment = Experiment.create(tmp_path / name, LAPTOP)
        evolve(experiment, 40)
        rows = sorted(experiment.history().rows.values(), key=lambda row: row.id)
        histories.append([(row.birth.dna, row.birth.mutations, row.fitness) for row in rows])
    assert histories[0] == histories[1]


def test_observers_change_nothing(tmp_path):
    experiment = Experiment.create(tmp_path / "e", LAPTOP)
    evolve(experiment, 20)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "e").rglob("*")}
    seen = Experiment.open(tmp_path / "e")
    history = seen.history()
    history.best()
    history.spending()
    seen.status()
    msgspec.json.encode(lineage(history.rows, history.best().id))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "e").rglob("*")} == before


def test_a_creator_that_was_killed_is_no_obstacle(tmp_path):
    """Found by killing a study: the half-written manifest made the directory look like a stranger's."""
    (tmp_path / "new-0123456789abcdef").write_text("{")
    (tmp_path / "pop" / "0000").mkdir(parents=True)
    (tmp_path / "workers").mkdir()
    assert Experiment.create(tmp_path, preset("laptop")).settings() == preset("laptop")


def test_folders_of_a_stranger_with_our_names_are_not_used(tmp_path):
    (tmp_path / "pop" / "songs").mkdir(parents=True)
    (tmp_path / "pop" / "songs" / "a.mp3").write_text("la")
    with pytest.raises(PopulationFormatError, match="not empty and not an experiment"):
        Experiment.create(tmp_path, preset("laptop"))
