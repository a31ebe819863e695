"""Children of two parents: recorded, safe from collection, taken over with the weights of both."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genepool.dna import Shape, decode, encode, initial
from genepool.errors import InvalidDNAError
from genepool.evaluation import Evaluation, Progress, Trained, ignore
from genepool.evolution import Breeding, ChildLimits, Rules, dna_of, mutated, recombined
from genepool.mutations import ADOPTION, ELEVEN, FUSION, MIXTURE
from genepool.population import MemoryPopulation, State
from tests.evolution.conftest import next_job
from tests.support.networks import random_dna
from tests.support.records import records

IMAGE = Shape(28, 28, 1)


class Judge:
    """Remembers what each training inherited, by seed."""

    def __init__(self):
        self.seen = {}
        self.answered = 0

    def evaluate(self, request, observe=ignore):
        seed = request.seed
        self.seen[seed] = (request.inherited, request.recombination)
        observe(Progress(10, 100, 1.0, lambda: b"10"))
        self.answered += 1
        return Trained(Evaluation(fitness=0.5 + seed % 1000 / 1e4, steps=100, seconds=1.0), b"w%d" % seed)


def evolved(world, form, births=60, **options):
    world.judge = Judge()
    world.rules = Rules(population_size=8, breeding=Breeding(recombination=form, recombination_odds=0.5))
    worker = world.worker(reason_to_stop=world.trainings(births), limits=ChildLimits(image=IMAGE), **options)
    worker.run()
    return {record.birth.id: record for record in records(worker.population)}


@pytest.mark.parametrize(("form", "name"), [("weights", MIXTURE), ("fusion", FUSION)])
def test_about_half_of_the_children_have_two_parents_and_the_weights_of_both(form, name, world):
    records = evolved(world, form)
    of_two = [record for record in records.values() if len(record.birth.parents) == 2]
    assert 15 <= len(of_two) <= 40
    for record in of_two:
        first, second = (records[parent].birth.training_seed for parent in record.birth.parents)
        assert first != second
        assert record.birth.mutations[0] == name
        assert len(record.birth.mutations) == (2 if form == "weights" else 1)
        assert world.judge.seen[record.birth.training_seed] == ((b"w%d" % first, b"w%d" % second), name)
        widths = [len(dna_of(records[parent].birth).convs) for parent in record.birth.parents]
        assert form != "fusion" or len(dna_of(record.birth).convs) == sum(widths) + 2


def test_odds_evolve_and_are_taken_from_the_second_parent(world):
    records = evolved(world, "probabilities")
    of_two = [record for record in records.values() if len(record.birth.parents) == 2]
    assert len(of_two) >= 15
    for record in of_two:
        first, second = (records[parent].birth for parent in record.birth.parents)
        assert record.birth.mutations[0] == ADOPTION
        assert len(record.birth.inherits) == 1
        assert world.judge.seen[record.birth.training_seed] == ((b"w%d" % first.training_seed,), "")
        before = dict(dna_of(second).odds) or dict.fromkeys(ELEVEN, 1.0)
        now = dict(dna_of(record.birth).odds)
        assert set(now) == set(ELEVEN)
        assert sum(now[name] != before[name] for name in now) <= 1
        assert all(0.5 <= now[name] / before[name] <= 2.0 for name in now)
    assert len({dna_of(record.birth).odds for record in records.values()}) > 15


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_dna_with_odds_keeps_them_through_text_and_mutations(seed):
    rng, dna = Random(seed), random_dna(seed, 15)
    assert "odds" not in encode(dna)
    breeding = Breeding(recombination="probabilities", mutations=3)
    child, names, _ = recombined((dna, dna), breeding, seed, None)
    assert len(names) == 4
    for _ in range(5):
        child = mutated(child, breeding, rng.getrandbits(60)).dna
    assert decode(encode(child)) == child
    assert child.odds == tuple(sorted(child.odds))
    assert {name for name, _ in child.odds} == set(ELEVEN)
    assert mutated(child, breeding, seed) == mutated(child, breeding, seed)


@pytest.mark.parametrize(
    "odds", [(("identity", 0.0),), (("identity", float("nan")),), (("a b", 1.0),), (("x", 1.0),) * 2]
)
def test_invalid_odds_are_refused(odds):
    with pytest.raises(InvalidDNAError, match="odds"):
        replace(initial(), odds=odds)


def test_without_the_images_shape_nothing_is_fused(world):
    world.judge = Judge()
    world.rules = Rules(population_size=8, breeding=Breeding(recombination="fusion", recombination_odds=1.0))
    worker = world.worker(reason_to_stop=world.trainings(20))
    worker.run()
    assert all(len(record.birth.parents) < 2 for record in records(worker.population))


def test_a_child_of_two_is_taken_over_with_the_weights_of_both_after_they_died(world):
    evolved(world, "weights", 20)
    worker = world.worker(seed=5, limits=ChildLimits(image=IMAGE))
    while len((job := next_job(worker)).birth.parents) < 2:
        worker.train(job)
    for parent in job.parents:
        worker.population.collect(worker.population.kill(parent))
    worker.population.hand_over(job.individual)
    other = world.worker(seed=6)
    other.step()
    [alive] = [i for i in MemoryPopulation(world.store).snapshot() if i.id == job.individual.id]
    assert alive.state is State.ALIVE
    inherited, form = world.judge.seen[job.birth.training_seed]
    assert form == MIXTURE
    assert len(set(inherited)) == 2


def test_switched_off_it_draws_no_random_number(world):
    drawn = []
    for breeding in (Breeding(), Breeding(recombination="off", recombination_odds=1.0)):
        other = type(world)()
        other.rules = Rules(population_size=8, breeding=breeding)
        worker = other.worker(reason_to_stop=other.trainings(30), limits=ChildLimits(image=IMAGE))
        worker.run()
        drawn.append(worker.rng.random())
    assert drawn[0] == drawn[1]
