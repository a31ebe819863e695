"""The exam that every population passes, ours or a stranger's.

Subclass `PopulationContract` in a test module and give it a fixture `exam`:

    class TestMyPopulation(PopulationContract):
        @pytest.fixture
        def exam(self, tmp_path):
            clock = Clock()
            return Exam(join=lambda: MyPopulation(tmp_path, clock=clock), clock=clock, lease=100.0)

`join` adds another worker to the same, at first empty, population.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable

import msgspec
import pytest

from genepool.errors import ConcurrencyError, PopulationTooSmallError
from genepool.population import naming
from genepool.population.base import Population
from genepool.population.individual import STRIKES, Checkpoint, Individual, State
from genepool.testing.factories import Clock, make_birth, make_weights

WEIGHTS = naming.WEIGHTS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """A population to examine: how to join it, and the clock that its leases are measured on."""

    join: Callable[[], Population]
    clock: Clock
    lease: float

    def live(self, *workers: Population, leases: float) -> None:
        """Lets time pass in which only these workers beat and look around."""
        for beat in range(round(leases * 10)):
            self.clock.advance(self.lease / 10)
            for worker in workers:
                worker.beat("train", round(self.clock.now * 1000) + beat)
                worker.orphans()


def born(worker: Population, number: int = 0, parent: Individual | None = None) -> Individual:
    """A TRAINING individual owned by the worker."""
    return worker.create(make_birth(number, parents=(parent,) if parent else ()), parent=parent)


def grown(worker: Population, number: int = 0, fitness: float = 0.5, parent: Individual | None = None) -> Individual:
    """An ALIVE individual with weights."""
    child = born(worker, number, parent)
    return worker.finish(child, fitness=fitness, metrics={"steps": 10}, files={WEIGHTS: make_weights(number)})


class PopulationContract:
    """What `genepool.population.base` promises, one case a test."""

    @pytest.fixture
    def exam(self) -> Exam:
        """Must be overridden."""
        raise NotImplementedError

    # One worker.

    def test_a_new_population_is_empty(self, exam: Exam) -> None:
        worker = exam.join()
        assert worker.snapshot() == []
        assert worker.size() == 0
        with pytest.raises(PopulationTooSmallError):
            worker.sample(random.Random(1))

    def test_create_makes_a_training_individual_of_the_caller(self, exam: Exam) -> None:
        worker = exam.join()
        child = born(worker, 7)
        assert (child.state, child.owner, child.epoch, child.strikes) == (State.TRAINING, worker.who, 1, 0)
        assert worker.snapshot() == [child]
        birth = worker.read_birth(child)
        assert birth.id == child.id
        assert birth.experiment
        assert msgspec.json.decode(birth.dna) == {"toy": 7}
        assert (birth.mutation_seed, birth.training_seed, birth.inherits) == (7, 8, None)
        assert worker.inherited_weights(child) is None
        assert worker.checkpoint(child) is None

    def test_finish_makes_it_alive_with_its_result(self, exam: Exam) -> None:
        worker = exam.join()
        alive = grown(worker, 3, fitness=0.1 + 0.2)
        assert (alive.state, alive.fitness, alive.owner) == (State.ALIVE, 0.1 + 0.2, "")
        assert worker.snapshot() == [alive]
        result = worker.read_result(alive)
        assert (result.fitness, result.metrics, result.attempt) == (0.1 + 0.2, {"steps": 10}, alive.attempt)
        assert result.files[WEIGHTS].size == 1_000
        assert worker.weights(alive) == make_weights(3)

    @pytest.mark.parametrize("fitness", [0.0, -0.0, 1.0, 1e-05, 5e-324, 1.7976931348623157e308, -2.5, 1 / 3])
    def test_fitness_comes_back_bit_for_bit(self, exam: Exam, fitness: float) -> None:
        worker = exam.join()
        alive = grown(worker, fitness=fitness)
        [seen] = worker.snapshot()
        assert repr(seen.fitness) == repr(fitness)
        assert repr(worker.read_result(alive).fitness) == repr(fitness)

    @pytest.mark.parametrize("fitness", [float("nan"), float("inf"), float("-inf")])
    def test_finish_refuses_a_fitness_that_is_not_finite(self, exam: Exam, fitness: float) -> None:
        worker = exam.join()
        child = born(worker)
        with pytest.raises(ValueError, match="not finite"):
            worker.finish(child, fitness=fitness)
        assert worker.snapshot() == [child]

    @pytest.mark.parametrize("name", ["", "..", "a/b", "/etc/passwd", "result.json", "W.x", "a\nb.c", "x" * 300 + ".y"])
    def test_finish_refuses_a_file_name_that_is_a_path(self, exam: Exam, name: str) -> None:
        worker = exam.join()
        child = born(worker)
        with pytest.raises(ValueError, match="cannot hold a file"):
            worker.finish(child, fitness=0.5, files={name: b""})
        assert worker.snapshot() == [child]

    def test_a_result_without_weights_is_a_result(self, exam: Exam) -> None:
        worker = exam.join()
        alive = worker.finish(born(worker), fitness=0.0, metrics={"reason": "diverged"})
        assert worker.weights(alive) is None
        child = born(worker, 1, parent=alive)
        assert worker.inherited_weights(child) is None

    def test_a_child_inherits_its_parents_weights(self, exam: Exam) -> None:
        worker = exam.join()
        parent = grown(worker, 1)
        child = born(worker, 2, parent=parent)
        assert worker.read_birth(child).parents == (parent.id,)
        assert worker.inherited_weights(child) == make_weights(1)

    def test_a_child_keeps_its_heritage_when_the_parent_is_collected(self, exam: Exam) -> None:
        worker = exam.join()
        parent = grown(worker, 1)
        child = born(worker, 2, parent=parent)
        worker.collect(worker.kill(parent))
        assert worker.snapshot() == [child]
        assert worker.inherited_weights(child) == make_weights(1)

    def test_a_parent_that_is_gone_has_no_children(self, exam: Exam) -> None:
        worker = exam.join()
        parent = grown(worker, 1)
        worker.collect(worker.kill(parent))
        with pytest.raises(ConcurrencyError):
            born(worker, 2, parent=parent)
        assert worker.snapshot() == []

    def test_kill_strip_collect_leave_a_fossil(self, exam: Exam) -> None:
        worker = exam.join()
        alive = grown(worker, 4, fitness=0.25)
        birth, result = worker.read_birth(alive), worker.read_result(alive)
        dead = worker.kill(alive, "lost")
        assert (dead.state, dead.owner, dead.why, dead.fitness) == (State.DEAD, worker.who, "lost", 0.25)
        worker.strip(dead)
        assert worker.weights(dead) is None
        worker.strip(dead)
        worker.collect(dead)
        assert worker.snapshot() == []
        [fossil] = worker.fossils()
        assert (fossil.id, fossil.birth, fossil.result) == (alive.id, birth, result)
        assert naming.parse(fossil.name) == dead

    def test_fail_leaves_a_fossil_with_the_reason(self, exam: Exam) -> None:
        worker = exam.join()
        failed = worker.fail(born(worker), "dna", "It has a cycle.")
        assert (failed.state, failed.why) == (State.FAILED, "dna")
        worker.collect(failed)
        [fossil] = worker.fossils()
        assert fossil.reason == "It has a cycle."
        assert fossil.result is None

    def test_quarantine_keeps_the_evidence(self, exam: Exam) -> None:
        worker = exam.join()
        put_aside = worker.quarantine(grown(worker), "files")
        assert put_aside.state is State.QUARANTINED
        assert worker.snapshot() == [put_aside]
        assert worker.census(fresh=True).quarantined == 1
        with pytest.raises(PopulationTooSmallError):
            worker.sample(random.Random(1))

    def test_reasons_that_do_not_fit_into_a_name_are_refused(self, exam: Exam) -> None:
        worker = exam.join()
        alive = grown(worker)
        for why in ("", "Two Words", "a-b", "x" * 13, "../x"):
            with pytest.raises(ValueError, match="cannot be part of a name"):
                worker.kill(alive, why)
        assert worker.snapshot() == [alive]

    def test_steps_out_of_order_are_refused(self, exam: Exam) -> None:
        worker = exam.join()
        child = born(worker)
        alive = grown(worker, 1)
        for step in (lambda: worker.kill(child), lambda: worker.collect(alive), lambda: worker.strip(child)):
            with pytest.raises(ValueError, match="this step is for one that is"):
                step()
        assert len(worker.snapshot()) == 2

    def test_records_join_the_living_and_the_dead(self, exam: Exam) -> None:
        worker = exam.join()
        old = grown(worker, 1)
        child = born(worker, 2, parent=old)
        worker.collect(worker.kill(old))
        alive = grown(worker, 3)
        records = {record.individual.id: record for record in worker.records()}
        assert set(records) == {old.id, child.id, alive.id}
        assert records[old.id].archived
        assert not records[alive.id].archived
        assert records[child.id].result is None

    # Numbers and draws.

    def test_the_size_follows_own_changes_at_once(self, exam: Exam) -> None:
        worker = exam.join()
        first, second = born(worker, 1), born(worker, 2)
        assert worker.size() == 2
        first = worker.finish(first, fitness=0.5)
        assert (worker.census().alive, worker.census().training) == (1, 1)
        worker.kill(first)
        worker.fail(second, "dna")
        assert worker.size() == 0

    def test_a_fresh_census_sees_everybodys_changes(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        assert one.size() == 0
        grown(other)
        assert one.census(fresh=True).alive == 1

    def test_every_living_individual_is_equally_likely(self, exam: Exam) -> None:
        worker = exam.join()
        living = [grown(worker, number) if number % 2 else born(worker, number) for number in range(20)]
        worker.kill(grown(worker, 99))
        worker.size()
        rng = random.Random(5)
        counts = collections.Counter(worker.sample(rng).id for _ in range(4_000))
        assert set(counts) == {individual.id for individual in living}
        chi_square = sum((counts[individual.id] - 200) ** 2 / 200 for individual in living)
        assert chi_square < 50  # 19 degrees of freedom: 1 in 10,000 exceeds 50

    def test_the_same_seed_draws_the_same_individuals(self, exam: Exam) -> None:
        worker = exam.join()
        for number in range(10):
            grown(worker, number)
        worker.size()
        draws = [[worker.sample(rng).id for _ in range(30)] for rng in (random.Random(3), random.Random(3))]
        assert draws[0] == draws[1]

    # Several workers.

    @pytest.mark.parametrize("step", ["kill", "quarantine"])
    def test_of_two_who_change_one_snapshot_one_wins(self, exam: Exam, step: str) -> None:
        one, other = exam.join(), exam.join()
        alive = grown(one)
        getattr(other, step)(alive, "lost")
        with pytest.raises(ConcurrencyError):
            one.kill(alive)
        assert len(one.snapshot()) == 1

    def test_only_the_owner_changes_a_training_individual(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one)
        with pytest.raises(ConcurrencyError):
            other.finish(child, fitness=0.5)
        with pytest.raises(ConcurrencyError):
            other.fail(child, "dna")
        with pytest.raises(ConcurrencyError):
            other.hand_over(child)
        with pytest.raises(ConcurrencyError):
            other.save_checkpoint(child, Checkpoint(step=1, data=b"x"))
        assert other.snapshot() == [child]

    def test_of_two_who_collect_one_wins_and_one_fossil_stays(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        dead = one.kill(grown(one))
        other.collect(dead)
        with pytest.raises(ConcurrencyError):
            one.collect(dead)
        assert len(list(one.fossils())) == 1

    def test_the_owner_of_a_snapshot_reads_it_until_it_changes(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        alive = grown(one)
        other.kill(alive)
        with pytest.raises(ConcurrencyError):
            one.read_birth(alive)
        with pytest.raises(ConcurrencyError):
            one.weights(alive)

    def test_what_is_garbage_gets_collected(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        dead = one.kill(grown(one, 1))
        failed = one.fail(born(one, 2), "dna")
        assert {individual.id for individual in one.garbage()} == {dead.id, failed.id}
        for _ in range(3):
            exam.live(other, leases=0.1)
            other.census(fresh=True)
            for individual in other.garbage():
                other.collect(individual)
        assert other.snapshot() == []
        assert {fossil.id for fossil in one.fossils()} == {dead.id, failed.id}

    # Leases.

    def test_a_beating_owner_is_not_abandoned(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one)
        exam.live(one, other, leases=3)
        assert not other.abandoned(child)
        assert other.orphans() == []

    def test_a_silent_owner_is_abandoned_after_a_lease(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one)
        other.orphans()
        exam.live(other, leases=0.8)
        assert not other.abandoned(child)
        exam.live(other, leases=0.5)
        assert other.abandoned(child)
        assert other.orphans() == [child]

    def test_an_owner_that_beats_without_progress_is_abandoned(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one)
        one.beat("train", 1)
        for _ in range(13):
            exam.live(other, leases=0.1)
            one.beat("train", 1)
        assert other.abandoned(child)

    def test_a_fresh_worker_waits_a_lease_before_it_takes_over(self, exam: Exam) -> None:
        one = exam.join()
        child = born(one)
        exam.clock.advance(5 * exam.lease)
        late = exam.join()
        late.beat("step", 1)
        assert not late.abandoned(child)
        exam.live(late, leases=0.5)
        assert not late.abandoned(child)
        exam.live(late, leases=0.6)
        assert late.abandoned(child)

    def test_an_observer_that_was_frozen_itself_starts_counting_anew(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one)
        exam.live(one, other, leases=1.2)
        exam.clock.advance(3 * exam.lease)
        assert not other.abandoned(child)
        other.beat("step", 10**9)
        assert not other.abandoned(child)
        exam.live(other, leases=1.1)
        assert other.abandoned(child)

    def test_what_a_worker_dropped_itself_is_free_for_it(self, exam: Exam) -> None:
        worker = exam.join()
        child = born(worker)
        assert worker.abandoned(child)
        assert not worker.abandoned(grown(worker, 1))

    def test_take_over_fences_the_former_owner(self, exam: Exam) -> None:
        zombie, thief = exam.join(), exam.join()
        child = born(zombie)
        mine = thief.take_over(child)
        assert (mine.state, mine.epoch, mine.owner, mine.strikes) == (State.TRAINING, 2, thief.who, 1)
        with pytest.raises(ConcurrencyError):
            zombie.save_checkpoint(child, Checkpoint(step=1, data=b"x"))
        with pytest.raises(ConcurrencyError):
            zombie.finish(child, fitness=0.9, files={WEIGHTS: b"zombie"})
        alive = thief.finish(mine, fitness=0.4, files={WEIGHTS: b"thief"})
        assert thief.snapshot() == [alive]
        assert zombie.weights(alive) == b"thief"
        assert alive.attempt == f"2-{thief.who}"

    def test_of_two_thieves_one_wins(self, exam: Exam) -> None:
        owner, one, other = exam.join(), exam.join(), exam.join()
        child = born(owner)
        one.take_over(child)
        with pytest.raises(ConcurrencyError):
            other.take_over(child)

    def test_a_checkpoint_reaches_the_next_owner(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one)
        one.save_checkpoint(child, Checkpoint(step=10, data=b"ten"))
        one.save_checkpoint(child, Checkpoint(step=20, data=b"twenty"))
        mine = other.take_over(child)
        assert mine.strikes == 0
        assert other.checkpoint(mine) == Checkpoint(step=20, data=b"twenty")
        other.save_checkpoint(mine, Checkpoint(step=30, data=b"thirty"))
        assert other.checkpoint(mine) == Checkpoint(step=30, data=b"thirty")
        alive = other.finish(mine, fitness=0.5, files={WEIGHTS: b"w"})
        assert other.weights(alive) == b"w"

    def test_hand_over_passes_the_checkpoint_to_anybody_at_once(self, exam: Exam) -> None:
        one, other = exam.join(), exam.join()
        child = born(one, 2, parent=grown(one, 1))
        one.save_checkpoint(child, Checkpoint(step=90, data=b"ninety"))
        free = one.hand_over(child)
        assert other.abandoned(free)
        assert free in other.orphans()
        mine = other.take_over(free)
        assert (mine.owner, mine.strikes) == (other.who, 0)
        assert other.checkpoint(mine) == Checkpoint(step=90, data=b"ninety")
        assert other.inherited_weights(mine) == make_weights(1)

    def test_attempts_without_progress_lead_to_failure(self, exam: Exam) -> None:
        child = born(exam.join())
        for strike in range(1, STRIKES):
            child = exam.join().take_over(child)
            assert (child.state, child.strikes) == (State.TRAINING, strike)
        last = exam.join()
        failed = last.take_over(child)
        assert (failed.state, failed.why) == (State.FAILED, "strikes")
        assert last.snapshot() == [failed]

    def test_progress_forgives_strikes(self, exam: Exam) -> None:
        child = born(exam.join())
        for step in range(1, 3 * STRIKES):
            worker = exam.join()
            child = worker.take_over(child)
            worker.save_checkpoint(child, Checkpoint(step=step, data=bytes([step])))
        assert child.state is State.TRAINING
        assert child.strikes <= 1
