"""The population contract as a test suite: what each operation does and refuses, and how draws and counts behave.

Subclass `PopulationContract` in a test module and give it a fixture `harness`:

    class TestMyPopulation(PopulationContract):
        @pytest.fixture
        def harness(self, tmp_path):
            clock = Clock()
            return Harness(join=lambda: MyPopulation(tmp_path, clock=clock), clock=clock, lease=100.0)

`join` adds another worker to the same population, which is empty at first.
"""

from __future__ import annotations

import collections
import random

import msgspec
import pytest

from genepool.errors import ConcurrencyError, PopulationTooSmallError
from genepool.population import WEIGHTS, Population, State
from genepool.testing.concurrency_contract import ConcurrencyContract
from genepool.testing.harness import Harness, UsesHarness, born, grown, make_weights


class LifeContract(UsesHarness):
    """One worker: the life of an individual, from birth to fossil."""

    @pytest.fixture
    def worker(self, harness: Harness) -> Population:
        return harness.join()

    def test_a_new_population_is_empty(self, worker: Population) -> None:
        assert worker.snapshot() == []
        assert worker.size() == 0
        with pytest.raises(PopulationTooSmallError):
            worker.sample(random.Random(1))

    def test_create_makes_a_training_individual_owned_by_the_caller(self, worker: Population) -> None:
        child = born(worker, 7)
        assert (child.state, child.owner, child.claim, child.strikes) == (State.TRAINING, worker.who, 1, 0)
        assert worker.snapshot() == [child]
        birth = worker.read_birth(child)
        assert (birth.id, bool(birth.experiment)) == (child.id, True)
        assert msgspec.json.decode(birth.dna) == {"toy": 7}
        assert (birth.mutation_seed, birth.training_seed, birth.inherits) == (7, 8, ())
        assert worker.inherited_weights(child) == ()
        assert worker.checkpoint(child) is None

    def test_finish_makes_an_individual_alive_with_its_result(self, worker: Population) -> None:
        alive = grown(worker, 3, fitness=0.1 + 0.2)
        assert (alive.state, alive.fitness, alive.owner) == (State.ALIVE, 0.1 + 0.2, "")
        assert worker.snapshot() == [alive]
        result = worker.read_result(alive)
        assert (result.fitness, result.metrics, result.attempt) == (0.1 + 0.2, {"steps": 10}, alive.attempt)
        assert result.files[WEIGHTS].size == 1_000
        assert worker.weights(alive) == make_weights(3)

    @pytest.mark.parametrize("fitness", [0.0, -0.0, 1.0, 1e-05, 5e-324, 1.7976931348623157e308, -2.5, 1 / 3])
    def test_fitness_comes_back_bit_for_bit(self, worker: Population, fitness: float) -> None:
        alive = grown(worker, fitness=fitness)
        [seen] = worker.snapshot()
        assert repr(seen.fitness) == repr(fitness)
        assert repr(worker.read_result(alive).fitness) == repr(fitness)

    @pytest.mark.parametrize("fitness", [float("nan"), float("inf"), float("-inf")])
    def test_finish_refuses_a_fitness_that_is_not_finite(self, worker: Population, fitness: float) -> None:
        child = born(worker)
        with pytest.raises(ValueError, match="not finite"):
            worker.finish(child, fitness=fitness)
        assert worker.snapshot() == [child]

    @pytest.mark.parametrize("name", ["", "..", "a/b", "/etc/passwd", "result.json", "W.x", "a\nb.c", "x" * 300 + ".y"])
    def test_finish_refuses_a_file_name_that_is_a_path(self, worker: Population, name: str) -> None:
        child = born(worker)
        with pytest.raises(ValueError, match="cannot hold a file"):
            worker.finish(child, fitness=0.5, files={name: b""})
        assert worker.snapshot() == [child]

    def test_a_result_needs_no_weights(self, worker: Population) -> None:
        alive = worker.finish(born(worker), fitness=0.0, metrics={"reason": "diverged"})
        assert worker.weights(alive) is None
        assert worker.inherited_weights(born(worker, 1, alive)) == ()

    def test_a_child_inherits_its_parents_weights(self, worker: Population) -> None:
        parent = grown(worker, 1)
        child = born(worker, 2, parent)
        assert worker.read_birth(child).parents == (parent.id,)
        assert worker.inherited_weights(child) == (make_weights(1),)

    @pytest.mark.parametrize("number_of_parents", [1, 2])
    def test_a_child_keeps_its_inherited_weights(self, worker: Population, number_of_parents: int) -> None:
        parents = [grown(worker, number) for number in range(number_of_parents)]
        child = born(worker, 3, *parents)
        for parent in parents:
            worker.collect(worker.kill(parent))
        assert worker.snapshot() == [child]
        assert worker.read_birth(child).parents == tuple(parent.id for parent in parents)
        assert worker.inherited_weights(child) == tuple(map(make_weights, range(number_of_parents)))
        alive = worker.finish(child, fitness=0.5, files={WEIGHTS: make_weights(3)})
        assert worker.inherited_weights(alive) == ()

    def test_inheritance_stops_at_the_first_parent_without_weights(self, worker: Population) -> None:
        one, other = grown(worker, 1), worker.finish(born(worker, 2), fitness=0.0)
        assert worker.inherited_weights(born(worker, 3, one, other)) == (make_weights(1),)
        assert worker.inherited_weights(born(worker, 4, other, one)) == ()

    @pytest.mark.parametrize("others", [0, 1])
    def test_a_parent_that_is_gone_is_refused(self, worker: Population, others: int) -> None:
        living = [grown(worker, number) for number in range(others)]
        gone = grown(worker, 2)
        worker.collect(worker.kill(gone))
        with pytest.raises(ConcurrencyError):
            born(worker, 3, *living, gone)
        assert worker.snapshot() == living

    def test_kill_and_collect_leave_a_fossil(self, worker: Population) -> None:
        alive = grown(worker, 4, fitness=0.25)
        birth, result = worker.read_birth(alive), worker.read_result(alive)
        dead = worker.kill(alive, "lost")
        assert (dead.state, dead.owner, dead.why, dead.fitness) == (State.DEAD, worker.who, "lost", 0.25)
        assert worker.weights(dead) == make_weights(4)
        worker.collect(dead)
        assert worker.snapshot() == []
        [fossil] = worker.fossils()
        assert (fossil.individual, fossil.birth, fossil.result) == (dead, birth, result)

    def test_fail_leaves_a_fossil_with_the_reason(self, worker: Population) -> None:
        failed = worker.fail(born(worker), "dna", "It has a cycle.")
        assert (failed.state, failed.why) == (State.FAILED, "dna")
        worker.collect(failed)
        [fossil] = worker.fossils()
        assert (fossil.reason, fossil.result) == ("It has a cycle.", None)

    def test_a_quarantined_individual_stays_as_evidence(self, worker: Population) -> None:
        quarantined = worker.quarantine(grown(worker), "files")
        assert quarantined.state is State.QUARANTINED
        assert worker.snapshot() == [quarantined]
        assert worker.census(fresh=True).quarantined == 1
        with pytest.raises(PopulationTooSmallError):
            worker.sample(random.Random(1))

    def test_a_reason_is_one_short_word(self, worker: Population) -> None:
        alive = grown(worker)
        for why in ("", "Two Words", "a-b", "x" * 13, "../x"):
            with pytest.raises(ValueError, match="cannot be part of a name"):
                worker.kill(alive, why)
        assert worker.snapshot() == [alive]

    def test_steps_out_of_order_are_refused(self, worker: Population) -> None:
        child, alive = born(worker), grown(worker, 1)
        for step in (lambda: worker.kill(child), lambda: worker.collect(alive), lambda: worker.collect(child)):
            with pytest.raises(ValueError, match="this step is for one that is"):
                step()
        assert len(worker.snapshot()) == 2

    def test_the_size_reflects_own_changes_at_once(self, worker: Population) -> None:
        first, second = born(worker, 1), born(worker, 2)
        assert worker.size() == 2
        first = worker.finish(first, fitness=0.5)
        assert (worker.census().alive, worker.census().training) == (1, 1)
        worker.kill(first)
        worker.fail(second, "dna")
        assert worker.size() == 0

    def test_a_fresh_census_reflects_all_changes(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        assert one.size() == 0
        grown(other)
        assert one.census(fresh=True).alive == 1

    def test_every_living_individual_is_equally_likely(self, worker: Population) -> None:
        living = [grown(worker, number) if number % 2 else born(worker, number) for number in range(20)]
        worker.kill(grown(worker, 99))
        worker.size()
        rng = random.Random(5)
        counts = collections.Counter(worker.sample(rng).id for _ in range(4_000))
        assert set(counts) == {individual.id for individual in living}
        chi_square = sum((counts[individual.id] - 200) ** 2 / 200 for individual in living)
        assert chi_square < 50  # 19 degrees of freedom: 1 in 10,000 exceeds 50

    def test_the_same_seed_draws_the_same_individuals(self, worker: Population) -> None:
        for number in range(10):
            grown(worker, number)
        worker.size()
        draws = [[worker.sample(rng).id for _ in range(30)] for rng in (random.Random(3), random.Random(3))]
        assert draws[0] == draws[1]

    def test_reading_too_early_or_too_late_is_harmless(self, worker: Population) -> None:
        parent = grown(worker, 1)
        child = born(worker, 2, parent)
        with pytest.raises(ConcurrencyError):
            worker.read_result(child)
        with pytest.raises(ConcurrencyError):
            born(worker, 3, child)
        alive = worker.finish(child, fitness=0.5)
        assert worker.inherited_weights(alive) == ()
        assert worker.checkpoint(alive) is None
        assert worker.snapshot() == sorted([parent, alive], key=lambda individual: individual.id)


__all__ = ["Harness", "PopulationContract"]


class PopulationContract(LifeContract, ConcurrencyContract):
    """Tests of what `genepool.population.contract` promises."""
