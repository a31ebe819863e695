"""The worker's step, on the population in memory."""

from collections import Counter

import msgspec
import pytest

from genepool.dna import initial
from genepool.errors import ConcurrencyError, StorageError
from genepool.evaluation import Training
from genepool.evolution import SET_POINTS, Breeding, Decision, Rules, dna_of, mutated
from genepool.population import Birth, MemoryPopulation, State
from tests.evolution.conftest import World, first_individual, next_job, set_reason_to_stop
from tests.support.records import records as records_of


def records(world):
    return list(records_of(MemoryPopulation(world.store)))


def test_the_first_two_are_trivial_and_all_others_are_one_mutation_from_their_parent(world):
    worker = world.worker(reason_to_stop=world.trainings(60))
    assert worker.run() == "enough"
    rows = sorted(records(world), key=lambda row: row.individual.id)
    by_id = {row.birth.id: row for row in rows}
    assert [row.birth.parents for row in rows[:2]] == [(), ()]
    assert all(dna_of(row.birth) == initial() for row in rows[:2])
    assert len(rows) == 60
    for row in rows[2:]:
        [parent] = row.birth.parents
        [name] = row.birth.mutations
        child = mutated(dna_of(by_id[parent].birth), Breeding(), row.birth.mutation_seed)
        assert child == (dna_of(row.birth), (name,), row.birth.mutation_seed)


def test_the_better_of_a_pair_reproduces_and_the_worse_dies(world):
    worker = world.worker(reason_to_stop=world.trainings(30))
    worker.run()
    drawn = []
    rule = world.rules.selection

    def selection(one, other, rng):
        drawn.append(rule(one, other, rng))
        return drawn[-1]

    set_reason_to_stop(worker, lambda: None)
    world.rules = msgspec.structs.replace(world.rules, selection=selection)
    for _ in range(20):
        worker.rules = world.rules
        before = {i.id for i in world.living()}
        worker.step()
        better, worse = drawn[-1]
        assert better.fitness >= worse.fitness
        [child] = {i.id for i in world.living()} - before
        assert worker.population.read_birth(next(i for i in world.living() if i.id == child)).parents == (better.id,)
        assert worse.id not in {i.id for i in world.living()}


def test_a_child_inherits_its_parents_weights_and_trains_with_its_own_seed(world):
    world.worker(reason_to_stop=world.trainings(40)).run()
    births = {row.birth.training_seed: row for row in records(world)}
    weights = {row.birth.id: b"w%d" % row.birth.training_seed for row in records(world)}
    for _, seed, inherited, _ in world.judge.seen:
        parents = births[seed].birth.parents
        assert inherited == tuple(weights[parent] for parent in parents)
    assert len({seed for _, seed, _, _ in world.judge.seen}) == len(world.judge.seen)


@pytest.mark.parametrize("rule", ["paper", "damped"])
@pytest.mark.parametrize("workers", [1, 8])
def test_the_population_grows_to_its_set_point_and_stays_there(world, rule, workers):
    world.rules = Rules(population_size=20, set_point=SET_POINTS.get(rule))
    pool = [world.worker(seed) for seed in range(workers)]
    for _ in range(1200 // workers):
        for worker in pool:
            worker.step_and_collect()
            assert len(world.living()) <= 20 + workers
    assert abs(len(world.living()) - 20) <= workers
    assert world.store.counts[State.DEAD] < 20  # the dead are collected


def test_a_larger_set_point_is_taken_up_at_the_next_step(world):
    worker = world.worker(reason_to_stop=world.trainings(60))
    worker.run()
    assert len(world.living()) == 10
    world.rules = Rules(population_size=30, version=2)
    set_reason_to_stop(worker, world.trainings(60))
    worker.run()
    assert len(world.living()) == 30
    assert Counter(row.birth.settings_version for row in records(world))[2] >= 20


def test_evolution_makes_progress(world):
    world.worker(reason_to_stop=world.trainings(400)).run()
    assert min(i.fitness for i in world.living() if i.state is State.ALIVE) > 0.3


def test_several_mutations_at_a_reproduction_are_recorded_in_order(world):
    world.rules = Rules(population_size=10, breeding=Breeding(mutations=5))
    world.worker(reason_to_stop=world.trainings(20)).run()
    children = [row for row in records(world) if row.birth.parents]
    assert {len(row.birth.mutations) for row in children} == {5}


def test_an_orphan_comes_first_and_is_trained_from_its_checkpoint(world):
    first = world.worker()
    stops = []
    set_reason_to_stop(first, lambda: "asked to" if stops else None)
    evaluate = world.judge.evaluate

    def stop_at_60(request, observe):
        def observe_until_60(progress):
            world.clock.advance(1.0)
            if progress.step == 60:
                stops.append(True)
            observe(progress)

        return evaluate(request, observe_until_60)

    world.judge.evaluate = stop_at_60
    assert first.run() == "asked to"
    [orphan] = world.living()
    assert (orphan.state, orphan.owner) == (State.TRAINING, "free0000")
    world.judge.evaluate = evaluate
    second = world.worker(seed=1, reason_to_stop=world.trainings(1))
    second.run()
    [individual] = world.living()
    assert (individual.id, individual.state) == (orphan.id, State.ALIVE)
    assert [start for *_, start in world.judge.seen] == [0, 60]


def test_a_silent_workers_training_is_taken_over_after_the_lease(world):
    class Frozen(BaseException):
        """The process does not come back."""

    def freeze(request, observe):
        raise Frozen

    silent = world.worker()
    real, world.judge.evaluate = world.judge.evaluate, freeze
    with pytest.raises(Frozen):
        silent.run()
    world.judge.evaluate = real
    [stuck] = world.living()
    other = world.worker(seed=1)
    for _ in range(70):
        world.clock.advance(1.0)
        other.step_and_collect()
    assert stuck.id in {row.birth.id for row in records(world) if row.result is not None}


def test_checkpoints_are_kept_at_intervals(world):
    saved = []
    world.rules = Rules(population_size=10, training=Training(checkpoint_every=30.0))
    worker = world.worker(reason_to_stop=world.trainings(12))
    keep = worker.population.save_checkpoint
    worker.population.save_checkpoint = lambda i, c: (saved.append(c.step), keep(i, c))
    heartbeat = worker.population.heartbeat
    worker.population.heartbeat = lambda *beat: (world.clock.advance(10.0), heartbeat(*beat))
    worker.run()
    assert saved[:3] == [20, 50, 80]  # the clock moved once before the first step


def test_an_unusable_dna_fails_and_the_worker_continues(world):
    worker = world.worker(reason_to_stop=world.trainings(30))
    bad = Birth(dna=msgspec.Raw(b'{"version": 1, "vertices": "none"}'), mutation_seed=0, training_seed=0)
    other_worker = MemoryPopulation(world.store)
    other_worker.hand_over(other_worker.create(bad))
    worker.run()
    [failed] = [fossil for fossil in world.store.fossils.values() if fossil.reason]
    assert "not a DNA" in failed.reason
    assert len(world.living()) == 10


def test_a_parent_with_an_unusable_dna_is_quarantined(world):
    worker = world.worker(reason_to_stop=world.trainings(30))
    bad = Birth(dna=msgspec.Raw(b"[]"), mutation_seed=0, training_seed=0)
    other_worker = MemoryPopulation(world.store)
    other_worker.finish(other_worker.create(bad), fitness=0.95)
    worker.run()
    assert world.store.counts[State.QUARANTINED] == 1
    assert len(world.living()) == 10


def test_unusable_weights_are_quarantined(world):
    worker = world.worker(reason_to_stop=world.trainings(40))
    other_worker = MemoryPopulation(world.store)
    parent = first_individual(other_worker)
    other_worker.finish(parent, fitness=0.9, files={"weights.safetensors": b"damaged"})
    worker.run()
    assert world.store.counts[State.QUARANTINED] == 2  # the child, and its parent, which would spoil every other child
    assert len(world.living()) == 10


def test_a_lost_race_ends_the_step_and_nothing_else(world):
    worker = world.worker(reason_to_stop=world.trainings(40))
    real, lost = worker.population.kill, []

    def kill(individual, why="lost"):
        if len(lost) < 5:
            lost.append(individual)
            raise ConcurrencyError("another worker was faster")
        return real(individual, why)

    worker.population.kill = kill
    assert worker.run() == "enough"
    assert len(lost) == 5
    assert len(world.living()) == 10


def test_a_full_disk_is_waited_for_and_a_finished_training_is_not_thrown_away(world):
    worker = world.worker(reason_to_stop=world.trainings(200))
    real, troubles = worker.population.finish, []

    def finish(*arguments, **options):
        if len(troubles) < 6:
            troubles.append(True)
            raise StorageError("the disk is full")
        return real(*arguments, **options)

    worker.population.finish = finish
    worker.run()
    assert world.slept[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
    assert len({seed for _, seed, _, _ in world.judge.seen}) == len(world.judge.seen)  # nothing was trained twice


def test_a_training_is_handed_over_even_without_room_for_its_checkpoint(world):
    worker = world.worker()
    stops = []
    set_reason_to_stop(worker, lambda: "asked to" if stops else None)

    def no_room(individual, checkpoint):
        raise StorageError("the disk is full")

    def heartbeat(phase, step, flops):
        world.clock.advance(1.0)
        if step == 50:
            stops.append(True)

    worker.population.save_checkpoint, worker.population.heartbeat = no_room, heartbeat
    assert worker.run() == "asked to"
    [orphan] = world.living()
    assert (orphan.state, orphan.owner) == (State.TRAINING, "free0000")


def test_no_individual_dies_unless_half_of_the_population_size_is_alive(world):
    def kill_only(census, wanted, rng):
        return Decision(kill=True, reproduce=False)

    world.rules = Rules(population_size=100, founders="two", set_point=kill_only)
    worker = world.worker()
    other_worker = MemoryPopulation(world.store)
    for number in range(60):
        other_worker.finish(first_individual(other_worker, number), fitness=number / 100)
    for _ in range(50):
        worker.step()
    assert len(world.living()) == 49  # one may go while 50 are alive


@pytest.mark.parametrize("rule", ["paper", "damped"])
def test_a_refused_death_allows_no_birth_in_its_place(world, rule):
    """Of 10, as many as wanted, 6 are in training and 4 alive: too few for a death, so a birth would be the 11th."""
    world.rules = Rules(population_size=10, set_point=SET_POINTS.get(rule))
    busy = [MemoryPopulation(world.store) for _ in range(10)]
    individuals = [first_individual(population) for population in busy]
    for population, individual in list(zip(busy, individuals, strict=True))[:4]:
        population.finish(individual, fitness=0.5)
    worker = world.worker()
    assert [next_job(worker) for _ in range(20)] == [None] * 20
    assert len(world.living()) == 10
    assert world.slept == [0.05] * 20
    world.rules = Rules(population_size=11, set_point=SET_POINTS.get(rule))
    worker.rules = world.rules
    assert next_job(worker) is not None  # there is room for one more without any death


def founded(world, workers, births):
    """Steps of several workers in turn; the results of their trainings arrive one round later."""
    pool, waiting = [world.worker(seed) for seed in range(workers)], []
    while len(records(world)) < births:
        for worker, job in waiting:
            worker.population.finish(job.individual, fitness=0.1, files={"weights.safetensors": b"w"})
        waiting = [(worker, job) for worker in pool if (job := next_job(worker)) is not None]
    return sorted(records(world), key=lambda row: row.individual.id)


@pytest.mark.parametrize("workers", [1, 5])
def test_an_experiment_begins_with_a_whole_population_of_first_individuals(world, workers):
    world.rules = Rules(population_size=20, set_point=SET_POINTS.get("paper"))
    rows = founded(world, workers, 60)
    assert [row.birth.parents for row in rows[:20]] == [()] * 20
    assert all(dna_of(row.birth) == initial() for row in rows[:20])
    assert all(row.birth.parents for row in rows[20:])


def test_with_two_founders_children_are_born_as_soon_as_two_are_alive(world):
    world.rules = Rules(population_size=20, founders="two")
    assert [bool(row.birth.parents) for row in founded(world, 1, 20)] == [False] * 2 + [True] * 18


def test_founding_is_not_repeated_by_a_worker_that_comes_later(world):
    world.rules = Rules(population_size=8, set_point=SET_POINTS.get("paper"))
    world.worker(reason_to_stop=world.trainings(12)).run()
    for individual in world.living()[:3]:
        MemoryPopulation(world.store).kill(individual)
    late = world.worker(seed=1)
    for individual in late.population.garbage():
        late.population.collect(individual)
    assert (len(world.living()), world.store.counts[State.DEAD]) == (5, 0)
    assert next_job(late).birth.parents


def test_founding_ends_when_one_of_the_first_has_ended(world):
    world.rules = Rules(population_size=8)
    population = MemoryPopulation(world.store)
    for fitness in (0.1, 0.2, 0.3):
        population.finish(first_individual(population), fitness=fitness)
    lost = first_individual(population)
    population.collect(population.fail(lost, "test"))
    assert next_job(world.worker()).birth.parents


def test_a_worker_waits_if_there_is_no_pair_and_no_room(world):
    world.rules = Rules(population_size=2)
    busy = [MemoryPopulation(world.store) for _ in range(2)]
    for population in busy:
        first_individual(population)
    world.worker(reason_to_stop=lambda: "enough" if len(world.slept) == 3 else None).run()
    assert world.slept == [0.05] * 3
    assert len(world.living()) == 2


def test_one_seed_gives_one_history(world):
    histories = []
    for _ in range(2):
        again = World()
        again.worker(seed=5, reason_to_stop=again.trainings(100)).run()
        rows = sorted(records(again), key=lambda row: row.individual.id)
        histories.append([(row.birth.dna, row.birth.mutations, row.individual.fitness) for row in rows])
    assert histories[0] == histories[1]


def test_two_workers_that_renew_the_same_individual_make_one_copy(world):
    world.worker(reason_to_stop=world.trainings(10)).run()
    world.rules = Rules(version=2, population_size=10, reset_version=2)
    worker, rival = world.worker(seed=1), world.worker(seed=2)
    create, jobs = worker.population.create, []

    def create_while_a_rival_is_faster(birth, **options):
        child = create(birth, **options)
        [victim] = [i for i in rival.population.snapshot() if i.id == birth.parents[0]]
        births = rival._reproduction()
        jobs.append(births.weight_reset.renewed((victim,), births.renewal_of))
        return child

    worker.population.create = create_while_a_rival_is_faster
    with pytest.raises(ConcurrencyError):
        next_job(worker)
    [job] = jobs
    individuals = rival.population.snapshot()
    assert [i for i in individuals if i.state is State.TRAINING] == [job.individual]
    assert [i.why for i in individuals if i.state is State.FAILED] == ["twice"]
    assert [i.why for i in individuals if i.state is State.DEAD and i.id == job.birth.parents[0]] == ["reset"]
