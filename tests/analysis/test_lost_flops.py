"""FLOPs of every individual ever created: also of trainings that failed, were cut off, taken over or given up."""

import itertools
import json
import time

import pytest

from genepool.analysis import Ledger
from genepool.evaluation import Evaluation, Trained, ignore
from genepool.evolution import Budget, Surroundings
from genepool.population import DirectoryPopulation, State
from genepool.testing.toy_evaluator import ToyEvaluator
from tests.support.dashboards import experiment
from tests.support.in_process import genepool

LEASE = 0.5
STEPS = 40
"""Steps of a training; each is one FLOP."""


class KilledError(BaseException):
    """The process is gone."""


class Killed:
    """Trains ten steps, each longer than the time between two heartbeats, and is killed."""

    def evaluate(self, request, observe=ignore):
        def until_ten(progress):
            observe(progress)
            if progress.step == 10:
                raise KilledError

        return ToyEvaluator(steps=STEPS, seconds=STEPS * LEASE / 10).evaluate(request, until_ten)


class Diverges:
    def evaluate(self, request, observe=ignore):
        return Trained(Evaluation(fitness=0.0, reason="the loss was nan.", flops=7, flops_training=1, steps=7), None)


def killed_worker(made):
    """A worker that died in its first training."""
    worker = made.worker(0, lambda version: Killed(), Surroundings())
    with pytest.raises(KilledError):
        worker.run()


def worker_that_finishes(made, count, evaluator=None):
    """A worker that stops after `count` trainings."""
    finished = lambda: len(made.history().finished())  # noqa: E731
    goal = finished() + count
    stop = lambda: "enough" if finished() >= goal else None  # noqa: E731
    evaluator = evaluator or ToyEvaluator(steps=STEPS)
    return made.worker(1, lambda version: evaluator, Surroundings(reason_to_stop=stop))


def taken_over(made):
    """The killed worker's individual, in the hands of another worker."""
    population = DirectoryPopulation.open(made.path)
    for beat in itertools.count():
        population.heartbeat("step", beat)
        if orphans := population.orphans():
            return population, population.take_over(orphans[0])
        time.sleep(LEASE / 10)
    raise AssertionError


def spent(made):
    """What all ways of reading agree on."""
    ledger = Ledger(made.view())
    ledger.refresh()
    assert made.history().spending() == ledger.spending()
    assert made.status().spent.flops == ledger.spending().flops
    return ledger.spending().flops, ledger.spending().flops_lost


def test_an_undisturbed_experiment_loses_nothing(tmp_path):
    made = experiment(tmp_path / "e")
    worker = worker_that_finishes(made, 5)
    worker.run()
    assert spent(made) == (5 * STEPS, 0)
    worker.population.close()
    assert spent(made) == (5 * STEPS, 0)


def test_a_training_that_was_taken_over_counts_twice_where_it_was_repeated(tmp_path):
    made = experiment(tmp_path / "e", f"population.lease={LEASE}")
    killed_worker(made)
    assert spent(made) == (0, 0)  # by what is on disk, it is still in progress
    population, individual = taken_over(made)
    assert spent(made) == (10, 10)
    population.hand_over(individual)
    worker_that_finishes(made, 1).run()
    assert spent(made) == (STEPS + 10, 10)
    assert Budget(flops=STEPS + 10).over(made.history().spending()) is not None


def test_a_training_that_was_given_up_counts(tmp_path):
    made = experiment(tmp_path / "e", f"population.lease={LEASE}")
    killed_worker(made)
    population, individual = taken_over(made)
    population.collect(population.fail(individual, "strikes"))
    assert [row.state for row in made.history().rows.values()] == [State.FAILED]
    assert spent(made) == (10, 10)


def test_a_training_that_was_cut_off_counts_once_when_it_is_continued(tmp_path):
    made, stops = experiment(tmp_path / "e"), []

    class Interrupted:
        def evaluate(self, request, observe=ignore):
            def until_ten(progress):
                stops.extend([True] * (progress.step == 10))
                observe(progress)

            return ToyEvaluator(steps=STEPS).evaluate(request, until_ten)

    surroundings = Surroundings(reason_to_stop=lambda: "asked to" if stops else None, clock=itertools.count().__next__)
    worker = made.worker(0, lambda version: Interrupted(), surroundings)
    assert worker.run() == "asked to"
    worker.population.close()
    assert spent(made) == (10, 10)
    worker_that_finishes(made, 1).run()
    [row] = made.history().finished()
    assert (row.evaluation.flops, row.evaluation.resumed, row.evaluation.executed) == (STEPS, 10, STEPS - 10)
    assert spent(made) == (STEPS, 0)


def test_a_training_that_failed_counts_and_the_status_shows_it(tmp_path):
    made = experiment(tmp_path / "e")
    worker_that_finishes(made, 1, Diverges()).run()
    worker_that_finishes(made, 2).run()
    assert spent(made) == (2 * STEPS + 7, 7)
    facts = json.loads(genepool("status", made.path, "--json").stdout)
    assert (facts["flops"], facts["flops_lost"], facts["workers_wanted"]) == (87, 7, 1)
    lines = genepool("status", made.path).stdout
    assert "lost         8.0 % of the FLOPs, in trainings that failed, were cut off or had to be repeated" in lines
