"""The part of the population contract about several workers: races, fences, leases, takeovers and inheritance."""

from __future__ import annotations

import pytest

from genepool.errors import ConcurrencyError
from genepool.population import STRIKES, WEIGHTS, Checkpoint, State
from genepool.testing.harness import Harness, UsesHarness, born, grown, make_weights


class ConcurrencyContract(UsesHarness):
    """Several workers: exactly one wins each race, silent workers are replaced, and no progress is lost."""

    @pytest.mark.parametrize("step", ["kill", "quarantine"])
    def test_only_one_of_two_changes_to_a_snapshot_succeeds(self, harness: Harness, step: str) -> None:
        one, other = harness.join(), harness.join()
        alive = grown(one)
        getattr(other, step)(alive, "lost")
        with pytest.raises(ConcurrencyError):
            one.kill(alive)
        assert len(one.snapshot()) == 1

    def test_only_the_owner_changes_a_training_individual(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
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

    def test_only_one_of_two_collections_succeeds_and_leaves_one_fossil(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        dead = one.kill(grown(one))
        other.collect(dead)
        with pytest.raises(ConcurrencyError):
            one.collect(dead)
        assert len(list(one.fossils())) == 1

    def test_an_outdated_snapshot_cannot_be_read(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        alive = grown(one)
        other.kill(alive)
        for read in (one.read_birth, one.weights):
            with pytest.raises(ConcurrencyError):
                read(alive)

    def test_garbage_is_collected(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        dead = one.kill(grown(one, 1))
        failed = one.fail(born(one, 2), "dna")
        assert {individual.id for individual in one.garbage()} == {dead.id, failed.id}
        for _ in range(3):
            harness.live(other, leases=0.1)
            other.census(fresh=True)
            for individual in other.garbage():
                other.collect(individual)
        assert other.snapshot() == []
        assert {fossil.id for fossil in one.fossils()} == {dead.id, failed.id}

    def test_the_individual_of_an_active_owner_is_not_an_orphan(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        born(one)
        harness.live(one, other, leases=3)
        assert other.orphans() == []

    def test_the_individual_of_a_silent_owner_is_an_orphan_after_a_lease(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        other.orphans()
        harness.live(other, leases=0.8)
        assert child not in other.orphans()
        harness.live(other, leases=0.5)
        assert other.orphans() == [child]

    def test_heartbeats_without_progress_do_not_renew_a_lease(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        one.heartbeat("train", 1)
        for _ in range(13):
            harness.live(other, leases=0.1)
            one.heartbeat("train", 1)
        assert child in other.orphans()

    def test_a_new_worker_waits_a_lease_before_it_takes_over(self, harness: Harness) -> None:
        one = harness.join()
        child = born(one)
        harness.clock.advance(5 * harness.lease)
        late = harness.join()
        late.heartbeat("step", 1)
        assert child not in late.orphans()
        harness.live(late, leases=0.5)
        assert child not in late.orphans()
        harness.live(late, leases=0.6)
        assert child in late.orphans()

    def test_an_observer_that_was_frozen_itself_starts_a_new_lease(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        harness.live(one, other, leases=1.2)
        harness.clock.advance(3 * harness.lease)
        assert child not in other.orphans()
        other.heartbeat("step", 10**9)
        assert child not in other.orphans()
        harness.live(other, leases=1.1)
        assert child in other.orphans()

    def test_a_worker_may_take_over_what_it_left_behind(self, harness: Harness) -> None:
        worker = harness.join()
        child = born(worker)
        grown(worker, 1)
        assert worker.orphans() == [child]

    def test_take_over_fences_the_former_owner(self, harness: Harness) -> None:
        former, taker = harness.join(), harness.join()
        child = born(former)
        mine = taker.take_over(child)
        assert (mine.state, mine.claim, mine.owner, mine.strikes) == (State.TRAINING, 2, taker.who, 1)
        with pytest.raises(ConcurrencyError):
            former.save_checkpoint(child, Checkpoint(step=1, data=b"x"))
        with pytest.raises(ConcurrencyError):
            former.finish(child, fitness=0.9, files={WEIGHTS: b"former"})
        alive = taker.finish(mine, fitness=0.4, files={WEIGHTS: b"taker"})
        assert taker.snapshot() == [alive]
        assert former.weights(alive) == b"taker"
        assert alive.attempt == f"2-{taker.who}"

    def test_only_one_of_two_takeovers_succeeds(self, harness: Harness) -> None:
        owner, one, other = harness.join(), harness.join(), harness.join()
        child = born(owner)
        one.take_over(child)
        with pytest.raises(ConcurrencyError):
            other.take_over(child)

    def test_a_checkpoint_reaches_the_next_owner(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
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

    def test_hand_over_passes_the_checkpoint_to_any_worker_at_once(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one, 2, grown(one, 1))
        one.save_checkpoint(child, Checkpoint(step=90, data=b"ninety"))
        free = one.hand_over(child)
        assert free in other.orphans()
        mine = other.take_over(free)
        assert (mine.owner, mine.strikes) == (other.who, 0)
        assert other.checkpoint(mine) == Checkpoint(step=90, data=b"ninety")
        assert other.inherited_weights(mine) == (make_weights(1),)

    def test_repeated_attempts_without_progress_lead_to_failure(self, harness: Harness) -> None:
        child = born(harness.join())
        for strike in range(1, STRIKES):
            child = harness.join().take_over(child)
            assert (child.state, child.strikes) == (State.TRAINING, strike)
        last = harness.join()
        failed = last.take_over(child)
        assert (failed.state, failed.why) == (State.FAILED, "strikes")
        assert last.snapshot() == [failed]

    def test_progress_forgives_strikes(self, harness: Harness) -> None:
        child = born(harness.join())
        for step in range(1, 3 * STRIKES):
            worker = harness.join()
            child = worker.take_over(child)
            worker.save_checkpoint(child, Checkpoint(step=step, data=bytes([step])))
        assert child.state is State.TRAINING
        assert child.strikes <= 1
