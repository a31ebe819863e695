"""Escaping local optima: obeyed by workers, recorded, survives restarts, ends by itself."""

import re
import threading

import pytest

from genepool.analysis import Annotation
from genepool.errors import SettingsError
from genepool.evaluation import Evaluation, Trained, ignore
from genepool.evolution import Escape, Intervention, Spending, Surroundings
from genepool.experiment import CurrentRules, Experiment, StopCondition, annotations_of
from genepool.population import State
from genepool.settings import override, preset
from genepool.study.plots.experiment import progress_figure

SETTINGS = override(
    preset("faithful"), ["population.size=6", "population.durability=fast", "population.set_point=paper"]
)


@pytest.fixture(autouse=True)
def every_look_counts(monkeypatch):
    """Where looking takes long, as on a busy machine, workers look less often and begin and end things later."""
    monkeypatch.setattr(StopCondition, "CHEAP", float("inf"))


class Judge:
    """No training. The fitness never gets better than the first, unless it is told to; remembers what was inherited."""

    def __init__(self):
        self.inherited = {}

    def evaluate(self, request, observe=ignore):
        self.inherited[request.seed] = request.inherited
        fitness = 0.6 if request.inherited else 0.5
        return Trained(
            Evaluation(fitness=fitness, flops=1000, seconds=0.0, parameters=20), b"weights of %d" % request.seed
        )


def evolve(experiment, births, judge=None):
    """A new worker, for so many births."""
    before = len(experiment.history().finished())

    def enough():
        return "enough" if len(experiment.history().finished()) >= before + births else None

    judge = judge or Judge()
    worker = experiment.worker(0, lambda version: judge, Surroundings(reason_to_stop=enough))
    worker.run()
    worker.population.close()
    return judge


def mutations(experiment):
    return [len(row.birth.mutations) for row in experiment.history().finished()]


def test_more_mutations_end_by_themselves_whoever_is_at_work_by_then(tmp_path):
    evolve(Experiment.create(tmp_path / "e", SETTINGS), 10)
    begun = Experiment.open(tmp_path / "e")
    begun.intervene(Intervention(mutations=5, individuals=12), begun.history().spending())
    for _ in range(5):  # a new process each time, for all that it knows
        evolve(Experiment.open(tmp_path / "e"), 4)
    begun.set({"training.steps": 77})  # another change does not disturb it
    evolve(Experiment.open(tmp_path / "e"), 2)
    assert mutations(begun)[10:] == [5] * 12 + [1] * 10
    assert begun.settings().breeding.mutations == 1


def test_a_phase_counted_in_time_is_counted_in_the_experiments_time():
    escape = Escape(mutations=5, time=600.0)
    assert escape.is_active(Spending(seconds=599.0, individuals=10**6))
    assert not escape.is_active(Spending(seconds=600.0))
    changes = Intervention(mutations=5, seconds=60.0).changes(Spending(seconds=540.0, individuals=7), 2)
    assert (changes["escape.time"], changes["escape.individuals"]) == (600.0, None)


def test_the_alarm_rings_and_tells(tmp_path):
    experiment = Experiment.create(tmp_path / "e", override(SETTINGS, ["escape.alarm=8"]))
    evolve(experiment, 20)
    spent = experiment.history().spending()
    escape = Escape(alarm=8)
    assert escape.raises_alarm(spent)
    assert escape.message(spent) == f"ALARM: {spent.since_best} individuals without a new best"
    assert not escape.raises_alarm(Spending(individuals=20, since_best=7))
    assert not Escape(alarm=8, quiet_until=15).raises_alarm(spent)
    assert experiment.version() == 1  # nobody asked for more than an alarm


def test_an_alarm_may_begin_an_escape_which_ends_and_may_begin_again(tmp_path):
    experiment = Experiment.create(tmp_path / "e", override(SETTINGS, ["escape.alarm=8", "escape.auto=5"]))
    evolve(experiment, 50)
    told = "".join(str(count) for count in mutations(experiment)[6:])  # the first six have no parents
    assert re.fullmatch("(1{2,}5{5})+1*5{0,5}", told), told
    begun = len(re.findall("15", told))
    assert begun >= 2, "it should have begun more than once"
    notes = [note for note in experiment.published().values() if note.label]
    assert {note.label for note in notes} == {"5 mutations"}
    assert len(notes) == begun
    assert all(note.who and note.when for note in notes)


def test_workers_that_hear_the_alarm_at_once_begin_one_escape(tmp_path):
    Experiment.create(tmp_path / "e", override(SETTINGS, ["escape.alarm=10", "escape.auto=40"]))
    crowd, rules = 16, []
    together = threading.Barrier(crowd)

    def spent():
        together.wait()  # all have seen version 1 in force, and none has acted
        return Spending(individuals=30, since_best=20, best=0.5)

    def work(number):
        rules.append(CurrentRules(Experiment.open(tmp_path / "e"), f"worker{number}", spent)())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(crowd)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Experiment.open(tmp_path / "e").version() == 2
    assert Experiment.open(tmp_path / "e").settings().escape.individuals == 70
    assert [rule.breeding.mutations for rule in rules] == [5] * crowd


def test_after_a_reset_nobody_inherits_from_before_and_every_network_is_trained_anew(tmp_path):
    experiment = Experiment.create(tmp_path / "e", SETTINGS)
    evolve(experiment, 20)
    old = {row.id: row for row in experiment.history().finished()}
    alive = {row.id for row in old.values() if row.state is State.ALIVE}
    version = experiment.intervene(Intervention(reset_weights=True), experiment.history().spending())
    assert version == 2
    judge = evolve(Experiment.open(tmp_path / "e"), 40)
    rows = experiment.history().rows
    new = [row for row in rows.values() if row.id not in old]
    renewed = [row for row in new if row.birth.mutations == ("renewal",)]
    assert {row.birth.parents[0] for row in renewed} == alive
    for row in renewed:
        assert row.dna == old[row.birth.parents[0]].dna
        assert judge.inherited[row.birth.training_seed] == ()
        assert rows[row.birth.parents[0]].individual.why == "reset"
    for row in new:
        inherited = judge.inherited[row.birth.training_seed]
        if inherited:
            assert row.birth.parents[0] not in old
            assert inherited == (b"weights of %d" % rows[row.birth.parents[0]].birth.training_seed,)
    assert any(judge.inherited.values()), "inheritance goes on among those who came after"


def test_interventions_are_drawn_without_overlapping(tmp_path):
    experiment = Experiment.create(tmp_path / "e", SETTINGS)
    evolve(experiment, 10)
    for intervention in (
        Intervention(mutations=5, individuals=6),
        Intervention(reset_weights=True),
        Intervention(population=8),
    ):
        experiment.intervene(intervention, experiment.history().spending())
    evolve(experiment, 16)
    history = experiment.history()
    notes = annotations_of(experiment, history)
    assert [note.label for note in notes] == ["5 mutations", "weights reset", "population 8", "1 mutation again"]
    assert [note.time for note in notes] == sorted(note.time for note in notes)

    start = history.finished()[0].result.finished
    crowd = [Annotation(start + i // 4 / 100, f"something longer {i}") for i in range(12)]
    figure = progress_figure(history.finished(), [*notes, *crowd])
    figure.draw_without_rendering()
    [axes] = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == len(notes) + len(crowd)
    inside = axes.get_window_extent()
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:number])
        assert inside.x0 - 1 <= box.x0
        assert box.x1 <= inside.x1 + 1
        assert inside.y0 <= box.y0


@pytest.mark.parametrize("what", [{}, {"mutations": 5}, {"individuals": 10}, {"population": 5, "seconds": 10.0}])
def test_an_intervention_that_does_nothing_or_half_is_refused(what):
    with pytest.raises(SettingsError, match="give"):
        Intervention(**what)


def test_a_change_that_was_made_meanwhile_is_not_lost(tmp_path):
    one, other = Experiment.create(tmp_path / "e", SETTINGS), Experiment.open(tmp_path / "e")
    assert one.intervene(Intervention(population=9), Spending(), version=1) == 2
    assert other.intervene(Intervention(population=7), Spending(), version=1) is None
    assert other.intervene(Intervention(mutations=3, individuals=5), Spending()) == 3
    assert (one.settings().population.size, one.settings().escape.mutations) == (9, 3)
