"""The same random calls on a directory and in memory give the same states, contents, errors and leases."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from genepool.errors import ConcurrencyError
from genepool.population import (
    Checkpoint,
    DirectoryPopulation,
    Files,
    Individual,
    MemoryPopulation,
    MemoryStore,
    Population,
    State,
    check_directory,
)
from genepool.testing import Clock, make_birth, make_weights
from tests.support.store_simulation import with_shards

LEASE = 100.0
WORKERS = 3
Pair = tuple[Individual, Individual]


class Twins(RuleBasedStateMachine):
    """Worker n of the directory makes the same calls as worker n in memory."""

    @initialize(shards=st.sampled_from([1, 4]))
    def start(self, shards: int) -> None:
        self.clock = Clock()
        self.path = tempfile.mkdtemp()
        files = Files(durability="fast", monotonic=self.clock)
        with with_shards(shards):
            DirectoryPopulation.establish(self.path, population_size=100, lease=LEASE, files=files)
        store = MemoryStore(clock=self.clock, lease=LEASE)
        self.directories: list[Population] = []
        self.memories: list[Population] = []
        for _ in range(WORKERS):
            self.directories.append(DirectoryPopulation.open(self.path, files=files))
            self.memories.append(MemoryPopulation(store))
        # The IDs of individuals and workers on one side, translated to the other, and every snapshot seen so far.
        self.names: dict[str, str] = {d.who: m.who for d, m in zip(self.directories, self.memories, strict=True)}
        self.seen: list[Pair] = []
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "path"):
            for worker in self.directories:
                worker.close()
            assert check_directory(self.path).violations == []
            shutil.rmtree(self.path)

    # Comparing.

    def translated(self, value: Any) -> Any:
        """Return a value of the directory with the IDs of the memory."""
        if isinstance(value, list):
            return [self.translated(item) for item in value]
        if not isinstance(value, Individual):
            return value
        attempt = value.attempt
        if attempt:
            claim, who = attempt.split("-")
            attempt = f"{claim}-{self.names.get(who, who)}"
        return msgspec.structs.replace(
            value,
            id=self.names[value.id],
            owner=self.names.get(value.owner, value.owner),
            attempt=attempt,
        )

    def both(self, worker: int, method: str, *arguments: Any, **options: Any) -> Pair | None:
        """Call both sides, splitting pairs of arguments; both must return the same value or raise the same error."""
        outcomes = []
        for side, population in enumerate((self.directories[worker], self.memories[worker])):
            mine = [a[side] if isinstance(a, tuple) else a for a in arguments]
            named = {k: tuple(pair[side] for pair in v) if k == "parents" else v for k, v in options.items()}
            try:
                outcomes.append(getattr(population, method)(*mine, **named))
            except (ConcurrencyError, ValueError) as error:
                outcomes.append(type(error))
        here, there = outcomes
        if method == "create" and isinstance(here, Individual) and isinstance(there, Individual):
            self.names[here.id] = there.id
        assert self.translated(here) == there, (method, here, there)
        if isinstance(here, Individual):
            self.seen.append((here, there))
            return here, there
        return None

    def pick(self, data: st.DataObject, *states: State) -> Pair | None:
        """Draw a snapshot from any time, often an outdated one."""
        fitting = [pair for pair in self.seen if pair[0].state in states]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    # Calling.

    workers = st.integers(0, WORKERS - 1)

    @rule(worker=workers, data=st.data(), orphaned=st.booleans())
    def create(self, worker: int, data: st.DataObject, orphaned: bool) -> None:
        self.number += 1
        parent = None if orphaned else self.pick(data, State.ALIVE, State.DEAD)
        self.both(worker, "create", make_birth(self.number), parents=[parent] if parent else [])

    @rule(worker=workers, data=st.data(), weights=st.booleans(), fitness=st.floats(0, 1))
    def finish(self, worker: int, data: st.DataObject, weights: bool, fitness: float) -> None:
        if pair := self.pick(data, State.TRAINING):
            files = {"weights.safetensors": make_weights(self.number)} if weights else {}
            self.both(worker, "finish", pair, fitness=fitness, metrics={"n": self.number}, files=files)

    @rule(worker=workers, data=st.data(), step=st.integers(0, 5))
    def save_checkpoint(self, worker: int, data: st.DataObject, step: int) -> None:
        if pair := self.pick(data, State.TRAINING):
            self.both(worker, "save_checkpoint", pair, Checkpoint(step=step, data=bytes([step])))

    @rule(worker=workers, data=st.data(), method=st.sampled_from(["fail", "kill", "quarantine"]))
    def end(self, worker: int, data: st.DataObject, method: str) -> None:
        if pair := self.pick(data, State.TRAINING, State.ALIVE, State.DEAD):
            self.both(worker, method, pair, "why")

    @rule(worker=workers, data=st.data(), method=st.sampled_from(["hand_over", "take_over"]))
    def pass_on(self, worker: int, data: st.DataObject, method: str) -> None:
        if pair := self.pick(data, State.TRAINING):
            self.both(worker, method, pair)

    @rule(worker=workers, data=st.data(), method=st.sampled_from(["collect"]))
    def clear_away(self, worker: int, data: st.DataObject, method: str) -> None:
        if pair := self.pick(data, State.DEAD, State.FAILED, State.ALIVE):
            self.both(worker, method, pair)

    @rule(worker=workers, data=st.data())
    def read(self, worker: int, data: st.DataObject) -> None:
        if pair := self.pick(data, State.ALIVE, State.DEAD):
            self.both(worker, "weights", pair)
        if pair := self.pick(data, State.TRAINING):
            self.both(worker, "inherited_weights", pair)
            self.both(worker, "checkpoint", pair)

    @rule(tenths=st.integers(1, 12), silent=st.sets(workers, max_size=2))
    def time_passes(self, tenths: int, silent: set[int]) -> None:
        for _ in range(tenths):
            self.clock.advance(LEASE / 10)
            awake = [worker for worker in range(WORKERS) if worker not in silent]
            for worker in awake:
                self.number += 1
                self.both(worker, "heartbeat", "train", self.number)
            for worker in awake:
                # In memory every heartbeat is seen at once; an observer of a directory may be later, never earlier.
                found = self.translated(self.directories[worker].orphans())
                known = self.memories[worker].orphans()
                assert all(individual in known for individual in found)

    # Agreeing.

    @precondition(lambda self: hasattr(self, "path"))
    @invariant()
    def both_hold_the_same(self) -> None:
        here, there = self.directories[0].snapshot(), self.memories[0].snapshot()
        assert sorted((self.translated(i) for i in here), key=lambda i: i.id) == there
        census = self.directories[0].census(fresh=True)
        assert census == self.memories[0].census()
        fossils = {self.names[fossil.id]: fossil for fossil in self.directories[0].fossils()}
        others = {fossil.id: fossil for fossil in self.memories[0].fossils()}
        assert set(fossils) == set(others)
        for identity, fossil in fossils.items():
            assert (fossil.birth.dna, fossil.reason) == (others[identity].birth.dna, others[identity].reason)
            assert (fossil.result is None) == (others[identity].result is None)


TestTwins = Twins.TestCase
TestTwins.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
