"""A small simulated cluster: the real worker's steps, in virtual time."""

import pytest

from genepool.evolution import SET_POINTS, Rules
from genepool.population import MemoryPopulation
from genepool.testing.simulation import Cluster, Landscape
from tests.support.records import records


def simulate(workers=20, size=80, individuals=1500, set_point="paper", seed=0):
    rules = Rules(population_size=size, set_point=SET_POINTS.get(set_point))
    cluster = Cluster(workers=workers, rules=rules, landscape=Landscape(), seed=seed)
    return cluster, cluster.run(individuals)


@pytest.mark.parametrize("set_point", ["paper", "damped"])
def test_workers_are_never_idle_for_long_and_the_size_stays_in_its_bounds(set_point):
    _, outcome = simulate(set_point=set_point)
    assert outcome.individuals == 1500
    assert outcome.idle < 0.01
    assert 80 - 20 <= outcome.smallest <= outcome.largest <= 80 + 20


@pytest.mark.parametrize("size", [2, 10, 50, 100])
def test_with_a_quarter_of_the_population_as_workers_there_is_always_something_to_train(size):
    _, outcome = simulate(workers=max(1, size // 4), size=size, individuals=30 * size)
    assert outcome.idle < 0.01
    assert outcome.individuals == 30 * size


def test_one_seed_gives_one_simulation():
    runs = [simulate(seed=seed)[1] for seed in (1, 1, 2)]
    first, second, other = ((run.simulated_hours, run.best, run.flops) for run in runs)
    assert first == second != other


def test_evolution_makes_progress_and_every_lineage_begins_with_a_trivial_individual():
    cluster, outcome = simulate(individuals=4000)
    assert outcome.best > 0.5
    births = {row.birth.id: row.birth for row in records(MemoryPopulation(cluster.store))}
    assert len(births) >= 4000
    for birth in births.values():
        assert set(birth.parents) <= births.keys()
        assert bool(birth.parents) == bool(birth.mutations)


def test_more_workers_train_more_in_the_same_time():
    few, many = (simulate(workers=n)[1] for n in (5, 40))
    assert 5 < many.individuals_per_hour / few.individuals_per_hour < 12
