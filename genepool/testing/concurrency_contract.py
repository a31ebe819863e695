"""The exam's questions about several workers: races, fences, leases, takeovers, and what is passed on."""

from __future__ import annotations

import pytest

from genepool.errors import ConcurrencyError
from genepool.population.individual import STRIKES, Checkpoint, State
from genepool.testing.harness import WEIGHTS, Harness, UsesHarness, born, grown, make_weights


class ConcurrencyContract(UsesHarness):
    """Of all who try, one wins; whoever is silent is replaced; nothing that was gained is lost."""

    @pytest.mark.parametrize("step", ["kill", "quarantine"])
    def test_of_two_who_change_one_snapshot_one_wins(self, harness: Harness, step: str) -> None:
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

    def test_of_two_who_collect_one_wins_and_one_fossil_stays(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        dead = one.kill(grown(one))
        other.collect(dead)
        with pytest.raises(ConcurrencyError):
            one.collect(dead)
        assert len(list(one.fossils())) == 1

    def test_the_owner_of_a_snapshot_reads_it_until_it_changes(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        alive = grown(one)
        other.kill(alive)
        with pytest.raises(ConcurrencyError):
            one.read_birth(alive)
        with pytest.raises(ConcurrencyError):
            one.weights(alive)

    def test_what_is_garbage_gets_collected(self, harness: Harness) -> None:
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

    # Leases.

    def test_a_beating_owner_is_not_abandoned(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        harness.live(one, other, leases=3)
        assert not other.abandoned(child)
        assert other.orphans() == []

    def test_a_silent_owner_is_abandoned_after_a_lease(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        other.orphans()
        harness.live(other, leases=0.8)
        assert not other.abandoned(child)
        harness.live(other, leases=0.5)
        assert other.abandoned(child)
        assert other.orphans() == [child]

    def test_an_owner_with_heartbeats_but_no_progress_is_abandoned(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        one.heartbeat("train", 1)
        for _ in range(13):
            harness.live(other, leases=0.1)
            one.heartbeat("train", 1)
        assert other.abandoned(child)

    def test_a_fresh_worker_waits_a_lease_before_it_takes_over(self, harness: Harness) -> None:
        one = harness.join()
        child = born(one)
        harness.clock.advance(5 * harness.lease)
        late = harness.join()
        late.heartbeat("step", 1)
        assert not late.abandoned(child)
        harness.live(late, leases=0.5)
        assert not late.abandoned(child)
        harness.live(late, leases=0.6)
        assert late.abandoned(child)

    def test_an_observer_that_was_frozen_itself_starts_counting_anew(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one)
        harness.live(one, other, leases=1.2)
        harness.clock.advance(3 * harness.lease)
        assert not other.abandoned(child)
        other.heartbeat("step", 10**9)
        assert not other.abandoned(child)
        harness.live(other, leases=1.1)
        assert other.abandoned(child)

    def test_what_a_worker_dropped_itself_is_free_for_it(self, harness: Harness) -> None:
        worker = harness.join()
        child = born(worker)
        assert worker.abandoned(child)
        assert not worker.abandoned(grown(worker, 1))

    def test_take_over_fences_the_former_owner(self, harness: Harness) -> None:
        zombie, thief = harness.join(), harness.join()
        child = born(zombie)
        mine = thief.take_over(child)
        assert (mine.state, mine.claim, mine.owner, mine.strikes) == (State.TRAINING, 2, thief.who, 1)
        with pytest.raises(ConcurrencyError):
            zombie.save_checkpoint(child, Checkpoint(step=1, data=b"x"))
        with pytest.raises(ConcurrencyError):
            zombie.finish(child, fitness=0.9, files={WEIGHTS: b"zombie"})
        alive = thief.finish(mine, fitness=0.4, files={WEIGHTS: b"thief"})
        assert thief.snapshot() == [alive]
        assert zombie.weights(alive) == b"thief"
        assert alive.attempt == f"2-{thief.who}"

    def test_of_two_thieves_one_wins(self, harness: Harness) -> None:
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

    def test_hand_over_passes_the_checkpoint_to_anybody_at_once(self, harness: Harness) -> None:
        one, other = harness.join(), harness.join()
        child = born(one, 2, grown(one, 1))
        one.save_checkpoint(child, Checkpoint(step=90, data=b"ninety"))
        free = one.hand_over(child)
        assert other.abandoned(free)
        assert free in other.orphans()
        mine = other.take_over(free)
        assert (mine.owner, mine.strikes) == (other.who, 0)
        assert other.checkpoint(mine) == Checkpoint(step=90, data=b"ninety")
        assert other.inherited_weights(mine) == (make_weights(1),)

    def test_attempts_without_progress_lead_to_failure(self, harness: Harness) -> None:
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
