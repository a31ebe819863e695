"""A population in the memory of one process, for tests, and for simulations of any size: no operation slows down.

All workers share one `MemoryStore`; to kill a worker in a simulation, stop using its object.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from genepool.errors import ConcurrencyError, PopulationTooSmallError
from genepool.population.contract import Metrics, NamedData, Population
from genepool.population.directory import names
from genepool.population.directory.contents import sha256
from genepool.population.directory.manifest import DEFAULT_LEASE
from genepool.population.directory.workers import HeartbeatTimer
from genepool.population.directory.writer import make_result
from genepool.population.individual import FREE, STRIKES, Birth, Census, Checkpoint, Fossil, Individual, Result, State


class _Body(msgspec.Struct, kw_only=True):
    individual: Individual
    birth: Birth
    inherited: tuple[bytes, ...]
    checkpoints: dict[str, Checkpoint]
    result: Result | None = None
    files: NamedData | None = None
    reason: str = ""


class MemoryStore:
    """The state that the workers of one population share."""

    def __init__(
        self,
        *,
        lease: float = DEFAULT_LEASE,
        clock: Callable[[], float] = time.monotonic,
        experiment: str = "00000000-0000-4000-8000-000000000000",
    ) -> None:
        self.lease, self.clock, self.experiment = lease, clock, experiment
        self.bodies: dict[str, _Body] = {}
        self.fossils: dict[str, Fossil] = {}
        self.counts = dict.fromkeys(State, 0)
        self.workers = 0
        # Ordered by the last heartbeat, oldest first, so the search for silent workers stops early.
        self.heard: OrderedDict[str, float] = OrderedDict()
        self.owned: dict[str, dict[str, None]] = {}
        self._living: list[str] = []
        self._places: dict[str, int] = {}
        self._ids = itertools.count(1)
        self.dead: dict[str, None] = {}

    def next_id(self) -> str:
        """Return the next ID; in memory a number is unique enough and keeps runs repeatable."""
        return names.make_id(next(self._ids), bytes(10))

    def body(self, individual: Individual) -> _Body:
        body = self.bodies.get(individual.id)
        if body is None or body.individual != individual:
            raise ConcurrencyError(f"Individual {individual.id} was changed by another worker; choose again.")
        return body

    def draw(self, rng: random.Random) -> Individual:
        if not self._living:
            raise PopulationTooSmallError("The population has no living individual to draw; create the first ones.")
        return self.bodies[self._living[rng.randrange(len(self._living))]].individual

    def add(self, body: _Body) -> None:
        self.bodies[body.individual.id] = body
        self._enter(body.individual)

    def move(self, old: Individual, new: Individual) -> Individual:
        """Compare and swap. Repeating a change is harmless, as in a directory, which cannot tell the two apart."""
        known = self.bodies.get(old.id)
        if known is not None and known.individual == new:
            return new
        self.body(old).individual = new
        self._leave(old)
        self._enter(new)
        return new

    def remove(self, old: Individual) -> None:
        del self.bodies[old.id]
        self._leave(old)

    def _enter(self, new: Individual) -> None:
        self.counts[new.state] += 1
        if new.living and new.id not in self._places:
            self._places[new.id] = len(self._living)
            self._living.append(new.id)
        if new.state is State.TRAINING:
            self.owned.setdefault(new.owner, {})[new.id] = None
        elif new.state in (State.DEAD, State.FAILED):
            self.dead[new.id] = None

    def _leave(self, old: Individual) -> None:
        self.counts[old.state] -= 1
        if old.state is State.TRAINING:
            self.owned[old.owner].pop(old.id)
        self.dead.pop(old.id, None)
        now = self.bodies.get(old.id)
        if old.living and not (now and now.individual.living):
            # The last one moves to the free place, so that a draw stays one look-up.
            place, last = self._places.pop(old.id), self._living.pop()
            if last != old.id:
                self._living[place] = last
                self._places[last] = place


class MemoryPopulation(Population):
    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.store.workers += 1
        self.who = names.make_who(lambda length: self.store.workers.to_bytes(length))
        self._timer = HeartbeatTimer(self.store.lease, self.store.clock())
        self.heartbeat("start", 0)

    def snapshot(self) -> list[Individual]:
        return sorted((body.individual for body in self.store.bodies.values()), key=lambda individual: individual.id)

    def sample(self, rng: random.Random) -> Individual:
        return self.store.draw(rng)

    def census(self, *, fresh: bool = False) -> Census:
        return Census.counted(self.store.counts)

    def orphans(self) -> list[Individual]:
        store, now = self.store, self.store.clock()
        silent = itertools.takewhile(lambda who: self._silent(who, now), store.heard)
        owners = dict.fromkeys((FREE, self.who, *silent))
        found = [store.bodies[identity].individual for who in owners for identity in store.owned.get(who, ())]
        return sorted(found, key=lambda individual: individual.id)

    def _silent(self, who: str, now: float) -> bool:
        return min(now - self.store.heard[who], self._timer.steady_for(now)) >= self.store.lease

    def garbage(self) -> list[Individual]:
        return [self.store.bodies[identity].individual for identity in itertools.islice(self.store.dead, 5)]

    def read_birth(self, individual: Individual) -> Birth:
        return self.store.body(individual).birth

    def read_result(self, individual: Individual) -> Result:
        result = self.store.body(individual).result
        if result is None:
            raise ConcurrencyError(f"Individual {individual.id} has no result yet; choose again.")
        return result

    def weights(self, individual: Individual) -> bytes | None:
        self.read_result(individual)
        return (self.store.body(individual).files or {}).get(names.WEIGHTS)

    def inherited_weights(self, individual: Individual) -> tuple[bytes, ...]:
        return self.store.body(individual).inherited

    def checkpoint(self, individual: Individual) -> Checkpoint | None:
        found = self.store.body(individual).checkpoints.values()
        return max(found, key=lambda checkpoint: checkpoint.step, default=None)

    def fossils(self) -> Iterator[Fossil]:
        yield from list(self.store.fossils.values())

    def create(self, birth: Birth, *, parents: tuple[Individual, ...] = ()) -> Individual:
        inherited = tuple(self._heritage(parents))
        child = Individual(id=self.store.next_id(), state=State.STAGING, owner=self.who).published()
        record = msgspec.structs.replace(
            birth,
            dna=msgspec.Raw(msgspec.json.format(bytes(birth.dna), indent=-1)),
            id=child.id,
            experiment=self.store.experiment,
            created=self.store.clock(),
            inherits=tuple(map(sha256, inherited)),
        )
        self.store.add(_Body(individual=child, birth=record, inherited=inherited, checkpoints={}))
        return child

    def _heritage(self, parents: tuple[Individual, ...]) -> Iterator[bytes]:
        for parent in parents:
            weights = self.weights(parent)
            if weights is None:
                return
            yield weights

    def save_checkpoint(self, individual: Individual, checkpoint: Checkpoint) -> None:
        self._require_own(individual)
        names.checkpoint_name(checkpoint.step, "")
        self.store.body(individual).checkpoints[individual.attempt] = checkpoint

    def finish(
        self, individual: Individual, *, fitness: float, metrics: Metrics | None = None, files: NamedData | None = None
    ) -> Individual:
        self._require_own(individual)
        files = dict(files or {})
        result = make_result(individual, fitness, metrics, files, self.store.clock())
        alive = individual.finished(individual.attempt, result.fitness)
        body = self.store.body(individual)
        body.result, body.files, body.inherited, body.checkpoints = result, files, (), {}
        return self.store.move(individual, alive)

    def hand_over(self, individual: Individual) -> Individual:
        self._require_own(individual)
        return self.store.move(individual, individual.handed_over())

    def take_over(self, individual: Individual) -> Individual:
        if individual.claim >= names.MAX_CLAIM - 1:
            return self.store.move(individual, individual.ended(State.FAILED, self.who, "claims"))
        steps = {attempt: saved.step for attempt, saved in self.store.body(individual).checkpoints.items()}
        last = steps.pop(individual.attempt, -1)
        progressed = last > max(steps.values(), default=-1)
        mine = self.store.move(individual, individual.taken_over(self.who, progressed=progressed))
        if mine.strikes >= STRIKES:
            return self.fail(mine, "strikes", f"{mine.strikes} attempts in a row ended without progress.")
        return mine

    def end(self, individual: Individual, state: State, why: str, reason: str = "") -> Individual:
        if state is State.FAILED:
            self._require_own(individual)
        ended = self.store.move(individual, individual.ended(state, self.who, names.valid_why(why)))
        self.store.body(ended).reason = reason
        return ended

    def collect(self, individual: Individual) -> None:
        individual.collected(self.who)
        body = self.store.body(individual)
        fossil = Fossil(individual=individual, birth=body.birth, result=body.result, reason=body.reason)
        self.store.fossils[individual.id] = fossil
        self.store.remove(individual)

    def heartbeat(self, phase: str, step: int, flops: int = 0) -> None:
        now = self.store.clock()
        if self._timer.due((phase, step, flops), now) is not None:
            self._timer.written(now)
            self.store.heard[self.who] = now
            self.store.heard.move_to_end(self.who)
