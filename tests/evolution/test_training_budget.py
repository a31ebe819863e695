"""The budget of each training, and the final phase."""

import pytest
from msgspec.structs import replace

from genepool.dna import Shape, StepTime, modest, step_time
from genepool.evaluation import Limits, Race, Training, TrainingBudget
from genepool.evolution import (
    Breeding,
    Budget,
    BudgetUse,
    ChildLimits,
    FinalPhase,
    Rules,
    Sharing,
    Spending,
    TrainingBudgetRules,
    dna_of,
    training_budget_of,
)
from genepool.evolution.helper import INVITATION_WAIT
from genepool.population import State
from tests.evolution.conftest import next_job

RULES = TrainingBudgetRules(share=0.05, first_share=0.02, early_crop=0.75, cooling=0.5)
FINAL = FinalPhase(share=0.15)


def used(fraction, total=1000.0):
    return BudgetUse(used=fraction * total, total=total)


def budget(use, rules=RULES, **options):
    return rules.budget(use, final_phase=FINAL, **options)


def test_by_default_trainings_are_as_configured():
    assert TrainingBudgetRules().budget(used(0.5)) == TrainingBudget()
    assert not FinalPhase().has_begun(used(1.0))
    assert budget(BudgetUse(used=100.0)) == TrainingBudget()  # there is no limit to divide


@pytest.mark.parametrize(("spent", "seconds"), [(0.01, 20.0), (0.3, 20.0), (0.4, 20.0), (0.6, 30.0), (0.8, 40.0)])
def test_an_individual_gets_a_share_of_the_time_elapsed_but_not_too_little(spent, seconds):
    assert budget(used(spent)).seconds == pytest.approx(seconds)


def test_in_the_final_phase_one_training_gets_all_the_time_that_is_left():
    assert FINAL.has_begun(used(0.86))
    assert 0.9 * 140 < budget(used(0.86)).seconds < 140


def test_crops_grow_and_learning_rates_cool():
    assert budget(used(0.2)).crop == 0.75
    assert budget(used(0.6)).crop == 1.0
    assert budget(used(0.6)).learning_rate_factor == pytest.approx(0.7)


def test_a_trivial_network_gets_a_tenth():
    assert budget(used(0.0001), trivial=True).seconds == pytest.approx(2.0)


def test_flops_are_divided_like_time():
    plain = TrainingBudgetRules(share=0.05, first_share=0.02)
    found = budget(BudgetUse(used=3e11, total=1e12, unit="flops"), plain, max_steps=500)
    assert found == TrainingBudget(flops=2e10, max_steps=500)
    last = budget(BudgetUse(used=9e11, total=1e12, unit="flops"), plain, max_steps=500)
    assert last == TrainingBudget(flops=1e11)
    steps = [budget(used(fraction), plain, max_steps=500).max_steps for fraction in (0.5, 0.9)]
    assert steps == [500, 0]


def test_the_use_is_that_of_the_nearest_limit():
    limits = Budget(time=100.0, flops=1e12, target=0.9)
    assert limits.use(Spending(seconds=20.0, individuals=5, flops=10**11)) == BudgetUse(used=20.0, total=100.0)
    assert limits.use(Spending(seconds=20.0, flops=8 * 10**11)).unit == "flops"
    assert Budget(flops=1e12).use(Spending(seconds=20.0)) == BudgetUse(total=1e12, unit="flops")
    assert Budget(individuals=10).use(Spending(seconds=20.0, individuals=9)).fraction == 0.0
    assert limits.use(Spending(seconds=300.0)).fraction == 1.0
    assert Budget(target=0.9).use(Spending(seconds=300.0, best=0.8)).fraction == 0.0


def test_in_the_final_phase_copies_of_the_best_replace_the_worst(world):
    first = world.worker(reason_to_stop=world.trainings(30))
    first.run()
    before = {i.id: i for i in alive(first)}
    best = max(before.values(), key=lambda individual: individual.fitness)
    world.rules = Rules(population_size=8, training_budget=RULES, final_phase=FINAL)
    worker = world.worker(reason_to_stop=world.trainings(2), budget_use=lambda: used(0.9))
    worker.run()
    after = alive(worker)
    new = [worker.population.read_birth(i) for i in after if i.id not in before]
    assert best.id in {i.id for i in after}
    gone = [fitness for identity, fitness in before.items() if identity not in {i.id for i in after}]
    assert all(individual.fitness <= min(i.fitness for i in after) for individual in gone)
    assert [birth.mutations for birth in new] == [("identity",)] * len(new) and new
    assert new[0].parents == (best.id,)
    assert training_budget_of(new[0]).seconds > 80


def test_trainings_before_the_final_phase_end_when_it_begins():
    assert budget(used(0.84)).seconds == pytest.approx(10.0)
    assert budget(used(0.8499999)).seconds == 0.25
    assert TrainingBudgetRules(share=0.05).budget(used(0.84)).seconds == pytest.approx(42.0)


def test_a_long_final_phase_keeps_back_only_seconds():
    assert budget(used(0.86, total=10_000)).seconds == pytest.approx(1400 - 15)


def test_in_the_final_phase_one_worker_has_the_cores_of_all(world):
    world.worker(reason_to_stop=world.trainings(30)).run()
    world.rules = Rules(population_size=8, training_budget=RULES, final_phase=FINAL)
    resting = world.worker(budget_use=lambda: used(0.9), final_phase_threads=0)
    assert next_job(resting) is None and world.slept.pop() > 0
    job = next_job(world.worker(budget_use=lambda: used(0.9), final_phase_threads=2))
    assert (job.birth.mutations, training_budget_of(job.birth).threads) == (("identity",), 2)
    alone = next_job(world.worker(budget_use=lambda: used(0.9)))
    assert training_budget_of(alone.birth).threads == 0


def test_the_final_phase_waits_a_little_for_other_trainings(world):
    first = world.worker(reason_to_stop=world.trainings(30))
    first.run()
    job = next_job(first)
    world.rules = Rules(population_size=8, training_budget=RULES, final_phase=FINAL)
    now = used(0.851)
    waiting = world.worker(budget_use=lambda: now, final_phase_threads=2)
    assert next_job(waiting) is None and world.slept.pop() > 0
    now = used(0.88)
    assert next_job(waiting) is not None  # it has waited long enough
    first.train(job)


def test_the_final_phase_begins_at_once_if_there_is_no_training(world):
    world.worker(reason_to_stop=world.trainings(30)).run()
    world.rules = Rules(population_size=8, training_budget=RULES, final_phase=FINAL)
    assert next_job(world.worker(budget_use=lambda: used(0.851), final_phase_threads=2)) is not None


def test_a_race_needs_the_setting_and_a_parent():
    racing = TrainingBudgetRules(racing=0.5)
    assert budget(used(0.5), racing, rival=0.8) == TrainingBudget(race=Race(look=0.5, rival=0.8, stretch=1.5))
    assert budget(used(0.5), racing) == budget(used(0.5), racing, rival=0.0) == TrainingBudget()
    assert budget(used(0.5), rival=0.8).race is None


def test_a_timed_race_leaves_the_final_phase_alone_and_stays_within_the_budget():
    racing = TrainingBudgetRules(share=0.05, racing=0.5)
    assert budget(used(0.5), racing, rival=0.8).race.stretch == 1.5
    assert budget(used(0.9), racing, rival=0.8).race is None
    for spent in (0.93, 0.945, 0.95, 0.96, 0.99):
        late = racing.budget(used(spent), rival=0.8)
        longest = late.seconds * (0.5 + 0.5 * late.race.stretch)
        assert 1.0 <= late.race.stretch <= 1.5
        assert longest <= 0.92 * used(spent).left + 0.01
    last = racing.budget(BudgetUse(used=96e10, total=1e12, unit="flops"), rival=0.8)
    assert (last.flops, last.race.stretch) == (pytest.approx(4e10), 1.0)


def test_children_race_against_their_parent(world):
    world.rules = Rules(population_size=8, training_budget=TrainingBudgetRules(racing=0.5))
    worker = world.worker(reason_to_stop=world.trainings(20))
    worker.run()
    fitness = {individual.id: individual.fitness for individual in alive(worker)}
    births = [worker.population.read_birth(individual) for individual in alive(worker)]
    raced = [birth for birth in births if birth.parents and birth.parents[0] in fitness]
    assert raced
    for birth in births:
        assert (training_budget_of(birth).race is not None) == bool(birth.parents)
    for birth in raced:
        assert training_budget_of(birth).race.rival == fitness[birth.parents[0]]


def test_a_child_that_is_too_expensive_is_drawn_again(world):
    """If convolutions cost more than any budget, no network has one."""
    odds = {"insert-convolution": 10.0, "alter-learning-rate": 1.0}
    world.rules = Rules(
        population_size=8,
        training_budget=RULES,
        final_phase=FINAL,
        limits=Limits(child_steps=100),
        breeding=Breeding(odds=odds),
    )
    worker = world.worker(
        reason_to_stop=world.trainings(60),
        budget_use=lambda: used(0.3),
        limits=ChildLimits(step_time=lambda dna, crop: StepTime(0.01 + len(dna.convs), 1.0)),
    )
    worker.run()
    births = [worker.population.read_birth(individual) for individual in alive(worker)]
    assert any(birth.parents for birth in births)
    assert not any(dna_of(birth).convs for birth in births)


def test_growth_begins_on_images_that_are_too_large_for_the_time(world):
    """Only the trivial network is affordable, but children that cost no more than a modest network are allowed."""
    odds = {"grow-convolution": 10.0, "widen": 10.0, "alter-learning-rate": 1.0}
    image = Shape(200, 200, 3)

    def costs(dna, crop):
        return step_time(dna, image, 10, 50)

    world.rules = Rules(
        population_size=8,
        training_budget=RULES,
        final_phase=FINAL,
        limits=Limits(child_steps=10**6),
        breeding=Breeding(odds=odds),
    )
    worker = world.worker(
        reason_to_stop=world.trainings(60), budget_use=lambda: used(0.3), limits=ChildLimits(costs, image=image)
    )
    worker.run()
    born = [dna_of(worker.population.read_birth(individual)) for individual in alive(worker)]
    assert any(dna.convs for dna in born)
    assert max(costs(dna, 1.0) for dna in born) <= costs(modest(3), 1.0)


def alive(worker):
    return [individual for individual in worker.population.snapshot() if individual.state is State.ALIVE]


def in_the_final_phase(world, number, parallel=True, batch=50, **more):
    """A worker that can share trainings."""
    phase = replace(FINAL, parallel=parallel)
    training = Training(batch=batch)
    world.rules = Rules(population_size=8, training_budget=RULES, final_phase=phase, training=training)
    return world.worker(budget_use=lambda: used(0.9), sharing=Sharing(number=number), **more)


def test_workers_that_can_share_a_training_wait_for_the_invitation_of_the_first(world):
    world.worker(reason_to_stop=world.trainings(30)).run()
    second = in_the_final_phase(world, 1)
    assert next_job(second) is None and world.slept.pop() > 0
    first = next_job(in_the_final_phase(world, 2))
    assert training_budget_of(first.birth).threads == 0
    assert next_job(second) is None
    world.clock.advance(INVITATION_WAIT)
    assert next_job(second) is not None  # nobody has invited it


@pytest.mark.parametrize(("parallel", "batch"), [(False, 50), (True, 32)])
def test_without_slices_one_worker_has_the_threads_of_all(world, parallel, batch):
    world.worker(reason_to_stop=world.trainings(30)).run()
    resting = in_the_final_phase(world, 1, parallel, batch, final_phase_threads=0)
    assert next_job(resting) is None
    job = next_job(in_the_final_phase(world, 0, parallel, batch, final_phase_threads=2))
    assert training_budget_of(job.birth).threads == 2
