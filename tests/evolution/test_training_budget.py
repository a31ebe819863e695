"""Time for individuals: by the share of what has elapsed, and for the best at the end."""

import pytest
from msgspec.structs import replace

from genepool.dna import Shape, StepTime, step_time
from genepool.dna.zoo import modest
from genepool.evaluation import Limits, Plan, Race, Training
from genepool.evolution import Budget, FinalPhase, Phase, Rules, Spending, TrainingBudgetRules
from genepool.evolution.reproduction import Breeding, dna_of, plan_of
from genepool.population import State


def rules(final=0.0, steps=0, **budget):
    training_budget, final_phase = TrainingBudgetRules(**budget), FinalPhase(share=final)
    training = Training(steps=steps)
    return Rules(population_size=8, training=training, training_budget=training_budget, final_phase=final_phase)


RULES = rules(share=0.05, first_share=0.02, final=0.15, early_crop=0.75, cooling=0.5)


def phase(spent, total=1000.0):
    return Phase(used=spent * total, total=total)


def test_by_default_nothing_is_planned():
    assert rules().plan(phase(0.5)) == Plan()
    assert not FinalPhase().has_begun(phase(1.0))
    assert RULES.plan(Phase(used=100.0)) == Plan()  # nobody knows how long it will be


@pytest.mark.parametrize(("spent", "seconds"), [(0.01, 20.0), (0.3, 20.0), (0.4, 20.0), (0.6, 30.0), (0.8, 40.0)])
def test_an_individual_gets_a_share_of_the_time_elapsed_but_not_too_little(spent, seconds):
    assert RULES.plan(phase(spent)).seconds == pytest.approx(seconds)


def test_at_the_end_all_the_time_that_is_left_goes_to_one():
    assert RULES.final_phase.has_begun(phase(0.86))
    assert 0.9 * 140 < RULES.plan(phase(0.86)).seconds < 140


def test_crops_grow_and_learning_rates_cool():
    assert RULES.plan(phase(0.2)).crop == 0.75
    assert RULES.plan(phase(0.6)).crop == 1.0
    assert RULES.plan(phase(0.6)).heat == pytest.approx(0.7)


def test_the_trivial_kind_gets_a_tenth():
    assert RULES.plan(phase(0.0001), trivial=True).seconds == pytest.approx(2.0)


def test_operations_are_planned_like_time():
    plan = rules(share=0.05, first_share=0.02, final=0.15, steps=500).plan(Phase(used=3e11, total=1e12, unit="flops"))
    assert plan == Plan(flops=2e10, most=500)
    last = rules(share=0.05, final=0.15, steps=500).plan(Phase(used=9e11, total=1e12, unit="flops"))
    assert last == Plan(flops=1e11)
    timed = rules(share=0.05, first_share=0.02, final=0.15, steps=500)
    assert (timed.plan(phase(0.5)).most, timed.plan(phase(0.9)).most) == (500, 0)


def test_the_phase_is_that_of_the_nearest_limit():
    budget = Budget(time=100.0, flops=1e12, target=0.9)
    assert budget.phase(Spending(seconds=20.0, individuals=5, flops=10**11)) == Phase(used=20.0, total=100.0)
    assert budget.phase(Spending(seconds=20.0, flops=8 * 10**11)).unit == "flops"
    assert Budget(flops=1e12).phase(Spending(seconds=20.0)) == Phase(total=1e12, unit="flops")
    assert Budget(individuals=10).phase(Spending(seconds=20.0, individuals=9)).spent == 0.0
    assert budget.phase(Spending(seconds=300.0)).spent == 1.0
    assert Budget(target=0.9).phase(Spending(seconds=300.0, best=0.8)).spent == 0.0


def test_in_the_last_part_copies_of_the_best_are_trained_in_the_place_of_the_worst(world):
    first = world.worker(reason_to_stop=world.trainings(30))
    first.run()
    before = {i.id: i for i in alive(first)}
    best = max(before.values(), key=lambda individual: individual.fitness)
    world.rules = RULES
    worker = world.worker(reason_to_stop=world.trainings(2), phase=lambda: phase(0.9))
    worker.run()
    after = alive(worker)
    new = [worker.population.read_birth(i) for i in after if i.id not in before]
    assert best.id in {i.id for i in after}
    gone = [fitness for identity, fitness in before.items() if identity not in {i.id for i in after}]
    assert all(individual.fitness <= min(i.fitness for i in after) for individual in gone)
    assert [birth.mutations for birth in new] == [("identity",)] * len(new) and new
    assert new[0].parents == (best.id,)
    assert plan_of(new[0]).seconds > 80


def test_what_begins_before_the_finish_ends_with_its_beginning():
    assert RULES.plan(phase(0.84)).seconds == pytest.approx(10.0)
    assert RULES.plan(phase(0.8499999)).seconds == 0.25
    assert rules(share=0.05).plan(phase(0.84)).seconds == pytest.approx(42.0)


def test_of_a_long_finish_only_seconds_are_kept_back():
    assert RULES.plan(phase(0.86, total=10_000)).seconds == pytest.approx(1400 - 15)


def test_in_the_finish_one_worker_has_the_cores_of_all(world):
    world.worker(reason_to_stop=world.trainings(30)).run()
    world.rules = RULES
    resting = world.worker(phase=lambda: phase(0.9), finishing=0)
    assert resting.begin() is None and world.slept.pop() > 0
    job = world.worker(phase=lambda: phase(0.9), finishing=2).begin()
    assert (job.birth.mutations, plan_of(job.birth).threads) == (("identity",), 2)
    alone = world.worker(phase=lambda: phase(0.9)).begin()
    assert plan_of(alone.birth).threads == 0


def test_the_finish_waits_a_little_for_what_others_are_training(world):
    first = world.worker(reason_to_stop=world.trainings(30))
    first.run()
    job = first.begin()
    world.rules = RULES
    now = phase(0.851)
    finisher = world.worker(phase=lambda: now, finishing=2)
    assert finisher.begin() is None and world.slept.pop() > 0
    now = phase(0.88)
    assert finisher.begin() is not None  # it has waited long enough
    first.end(job, first.train(job))


def test_the_finish_begins_at_once_where_nobody_is_training(world):
    world.worker(reason_to_stop=world.trainings(30)).run()
    world.rules = RULES
    assert world.worker(phase=lambda: phase(0.851), finishing=2).begin() is not None


def test_a_race_is_planned_only_where_it_is_set_and_there_is_a_parent():
    racing = rules(racing=0.5)
    assert racing.plan(phase(0.5), rival=0.8) == Plan(race=Race(look=0.5, rival=0.8, stretch=1.5))
    assert racing.plan(phase(0.5)) == racing.plan(phase(0.5), rival=0.0) == Plan()
    assert RULES.plan(phase(0.5), rival=0.8).race is None


def test_a_race_in_time_leaves_the_finish_alone_and_stays_within_the_budget():
    racing = rules(share=0.05, final=0.15, racing=0.5)
    assert racing.plan(phase(0.5), rival=0.8).race.stretch == 1.5
    assert racing.plan(phase(0.9), rival=0.8).race is None
    late = rules(share=0.05, racing=0.5)
    for spent in (0.93, 0.945, 0.95, 0.96, 0.99):
        plan = late.plan(phase(spent), rival=0.8)
        longest = plan.seconds * (0.5 + 0.5 * plan.race.stretch)
        assert 1.0 <= plan.race.stretch <= 1.5
        assert longest <= 0.92 * phase(spent).left + 0.01
    last = rules(share=0.05, racing=0.5).plan(Phase(used=96e10, total=1e12, unit="flops"), rival=0.8)
    assert (last.flops, last.race.stretch) == (pytest.approx(4e10), 1.0)


def test_children_race_against_the_parent_that_they_were_born_of(world):
    world.rules = rules(racing=0.5)
    worker = world.worker(reason_to_stop=world.trainings(20))
    worker.run()
    fitness = {individual.id: individual.fitness for individual in alive(worker)}
    births = [worker.population.read_birth(individual) for individual in alive(worker)]
    raced = [birth for birth in births if birth.parents and birth.parents[0] in fitness]
    assert raced
    for birth in births:
        assert (plan_of(birth).race is not None) == bool(birth.parents)
    for birth in raced:
        assert plan_of(birth).race.rival == fitness[birth.parents[0]]


def test_a_child_that_is_too_costly_is_drawn_again(world):
    """With a price on convolutions that nobody can pay, no network has one."""
    odds = {"insert-convolution": 10.0, "alter-learning-rate": 1.0}
    world.rules = replace(RULES, limits=Limits(child_steps=100), breeding=Breeding(odds=odds))
    worker = world.worker(
        reason_to_stop=world.trainings(60),
        phase=lambda: phase(0.3),
        step_time=lambda dna, crop: StepTime(0.01 + len(dna.convs), 1.0),
    )
    worker.run()
    births = [worker.population.read_birth(individual) for individual in alive(worker)]
    assert any(birth.parents for birth in births)
    assert not any(dna_of(birth).convs for birth in births)


def test_growth_begins_on_images_that_are_too_large_for_the_time(world):
    """Nothing can be afforded but the trivial network: what costs no more than one modest convolution is born."""
    odds = {"grow-convolution": 10.0, "widen": 10.0, "alter-learning-rate": 1.0}
    image = Shape(200, 200, 3)

    def costs(dna, crop):
        return step_time(dna, image, 10, 50)

    world.rules = replace(RULES, limits=Limits(child_steps=10**6), breeding=Breeding(odds=odds))
    worker = world.worker(reason_to_stop=world.trainings(60), phase=lambda: phase(0.3), step_time=costs, image=image)
    worker.run()
    born = [dna_of(worker.population.read_birth(individual)) for individual in alive(worker)]
    assert any(dna.convs for dna in born)
    assert max(costs(dna, 1.0) for dna in born) <= costs(modest(3), 1.0)


def alive(worker):
    return [individual for individual in worker.population.snapshot() if individual.state is State.ALIVE]
