"""The columns of a table, spending, and the status."""

import os
import random

import numpy as np
import pytest

from genepool.analysis import Ledger, Observer, Table, records_of, spending, status
from genepool.analysis.table import elapsed
from genepool.evolution import Budget, Spending
from genepool.population import DirectoryPopulation
from genepool.testing import make_birth
from tests.support.dashboards import evolve, experiment


def table_of(*individuals):
    """A table of individuals given as (finished, seconds, flops, fitness)."""
    table = Table()
    for number, values in enumerate(individuals):
        columns = dict(zip(("finished", "seconds", "flops", "fitness"), values, strict=True))
        table.put(table.add(f"{number:04}"), state=ord("A"), born=values[0] - values[1], **columns)
    table.settle()
    return table


def test_time_counts_while_at_least_one_individual_is_in_training():
    intervals = sorted([(0, 2), (1, 3), (5, 6), (5.5, 5.7)], key=lambda interval: interval[1])
    starts, stops = (np.array(column, float) for column in zip(*intervals, strict=True))
    assert elapsed(starts, stops).tolist() == [2, 3, pytest.approx(3.7), 4]
    assert elapsed(starts[:0], stops[:0]).tolist() == []


def test_spending_of_nothing_and_of_a_run_in_progress():
    assert spending(Table()) == Spending()
    assert spending(Table(), (5.0, 8.0)).seconds == 3
    table = table_of((10, 10, 5, 0.3), (30, 10, 7, 0.2))
    assert spending(table) == Spending(seconds=20, individuals=2, flops=12, best=0.3, since_best=1)
    assert spending(table, (25, 32)).seconds == 22
    assert spending(table, (8, 32)).seconds == 32


@pytest.mark.parametrize(
    ("fitness", "best", "since", "records"),
    [
        ([0.0, 0.0], 0.0, 2, []),
        ([0.0, 0.2, 0.1, 0.2], 0.2, 2, [2]),
        ([0.1, 0.2, 0.3], 0.3, 0, [1, 2, 3]),
        ([-1.0, -0.5], -0.5, 0, [2]),
    ],
)
def test_a_record_is_higher_than_all_before(fitness, best, since, records):
    table = table_of(*((i, 1, 1, value) for i, value in enumerate(fitness, start=1)))
    spent = spending(table)
    assert (spent.best, spent.since_best) == (best, since)
    assert (np.nonzero(table.progress().is_record)[0] + 1).tolist() == records
    assert records_of(table.progress()).individuals == sorted({*records, len(fitness)})


def test_individuals_that_finish_at_the_same_time_are_ordered_by_id():
    """Times are stored in milliseconds, and tiny networks finish within one."""
    table, rng, truth = Table(), random.Random(0), []
    for _ in range(300):
        row = table.add(f"{rng.getrandbits(60):015x}")
        table.put(row, finished=rng.randrange(100), fitness=0.5)
        truth.append((table.get(row, "finished"), table.ids[row], row))
    assert table.finished_rows().tolist() == [row for _, _, row in sorted(truth)]


def test_the_columns_elapsed_spent_and_rank_change_only_where_they_must():
    table = table_of((10, 10, 5, 0.3), (30, 10, 7, 0.2), (40, 10, 1, 0.1))
    unfinished = table.add("unfinished")
    table.put(unfinished, state=ord("T"), born=35)
    table.settle()
    columns = {name: table.column(name).tolist() for name in ("elapsed", "spent", "rank")}
    assert columns == {"elapsed": [10, 20, 30, 20], "spent": [5, 12, 13, 12], "rank": [1, 2, 3, 2]}
    sequence = table.sequence
    table.settle()
    assert table.sequence == sequence
    late = table.add("late")  # a long training that covers the pause before the second
    table.put(late, state=ord("A"), born=15, finished=45, seconds=30, flops=1, fitness=0.1)
    sequence = table.sequence
    table.settle()
    assert sorted(table.changed_since(sequence, 10).tolist()) == [1, 2, unfinished, late]
    assert table.column("elapsed").tolist() == [10, 25, 35, 25, 40]


def test_spending_adds_up_all_individuals_that_ever_became_alive(tmp_path):
    made = experiment(tmp_path / "e")
    evolve(made, 30)
    history = made.history()
    rows, spent = history.finished(), history.spending()
    assert (spent.individuals, spent.flops) == (30, sum(row.evaluation.flops for row in rows))
    assert spent.best == max(row.fitness for row in rows)
    first = [row.fitness for row in rows].index(spent.best)
    assert spent.since_best == 30 - first - 1
    ledger = Ledger(made.view())
    ledger.refresh()
    assert len(ledger) == 30
    assert ledger.spending() == spent


def test_the_status_of_an_experiment(tmp_path):
    made = experiment(tmp_path / "e", "budget.individuals=30")
    assert made.status().state == "empty"
    evolve(made, 20)
    found, history = made.status(), made.history()
    assert (found.state, found.over) == ("running", None)  # an individual has just finished
    assert found.spent == history.spending()
    assert found.best.id == history.best().id
    assert (found.best.accuracy, found.best.network) == (history.best().accuracy, history.best().dna.in_a_line())
    assert found.last == history.finished()[-1].id
    assert found.overhead.share == pytest.approx(0.25)
    assert sum(total.individuals for total in found.workers.values()) == 20
    assert found.rate.individuals_per_minute > 0
    assert found.seconds_left > 0
    evolve(made, 10)
    assert (made.status().state, made.status().over) == ("finished", "30 individuals have been trained")
    made.path.rename(tmp_path / "away")
    observer = Observer(tmp_path / "away")
    (tmp_path / "away").rename(made.path)
    observer.refresh()
    assert status.status_of(observer, made.terms()).state == "unreadable"


@pytest.mark.parametrize(("started", "left", "is_final"), [(-60, 3, True), (6, 9, False)])
def test_time_goes_on_while_the_best_is_trained_to_the_end(tmp_path, monkeypatch, started, left, is_final):
    """The final training takes minutes; a worker that starts after a pause has not worked during the pause."""
    made = experiment(tmp_path / "e", "budget.time=10", "final_phase.share=0.4")
    evolve(made, 5)
    population = DirectoryPopulation.open(tmp_path / "e")
    population.create(make_birth())
    now = made.history().finished()[-1].result.finished
    os.utime(tmp_path / "e" / "workers" / population.who / "info.json", (now + started, now + started))
    observer = made.observe()
    observer.refresh()
    monkeypatch.setattr(status.time, "time", lambda: now + 7)
    found = made.status(observer)
    assert (found.state, found.final_phase is not None) == ("running", is_final)
    assert found.seconds_left == pytest.approx(left, abs=1)
    assert found.spent.seconds == pytest.approx(10 - found.seconds_left)
    population.close()


def test_the_time_left_is_that_of_the_nearest_limit():
    rate = status.Rate(individuals_per_minute=60, flops_per_second=10)
    budget = Budget(time=100, individuals=50, flops=1000)
    left = status._seconds_left
    assert left(budget, Spending(seconds=95), rate) == 5
    assert left(budget, Spending(individuals=40), rate) == 10
    assert left(budget, Spending(flops=980), rate) == 2
    assert left(Budget(), Spending(), rate) is None
