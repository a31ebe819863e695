"""One worker: an endless loop of steps on a population that it shares with others it never talks to.

Follows "Evolutionary Algorithm" in the paper and `evolve_population` in its supplement S1.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

import msgspec

from genepool.dna import DNA, CapacityLimit, Shape
from genepool.errors import (
    ConcurrencyError,
    DataError,
    InvalidDNAError,
    PopulationTooSmallError,
    SettingsError,
    StepAbandoned,
    StorageError,
)
from genepool.evaluation import Evaluator, Plan, Second, Trained
from genepool.evolution import set_point
from genepool.evolution.child_limits import FREE_OF_CHARGE, NOTHING, Capacities, ChildLimits, Question, StepTimes
from genepool.evolution.monitor import TrainingMonitor
from genepool.evolution.reproduction import (
    Breeding,
    Founder,
    copied_birth,
    dna_of,
    first_birth,
    next_birth,
    plan_of,
    recombined_birth,
    renewed_birth,
)
from genepool.evolution.selection import Pair, Selection, tournament
from genepool.evolution.set_point import SetPoint
from genepool.evolution.training_budget import SHORTEST, Phase, Planning
from genepool.population import Birth, Checkpoint, Individual, Population, State
from genepool.population.directory.names import WEIGHTS

log = logging.getLogger(__name__)

DRAWS = 20
"""Pairs drawn in a row before the worker concludes that all others are busy training."""


REST = 0.5
"""Seconds before a worker that cannot make children looks again for something that it can do."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker goes by; it asks for them anew before each step, since they may change while it runs."""

    version: int = 1
    """Of the settings that these come from."""
    population_size: int = 1000
    selection: Selection = tournament
    set_point: SetPoint = set_point.damped
    breeding: Breeding = Breeding()
    planning: Planning = Planning()
    affordable: int = 0
    """Steps that a child must have time for; 0: any child will do."""
    largest: CapacityLimit | None = None
    """What a child may not outgrow, or its mutation is drawn again; None: it is born, whatever becomes of it."""
    checkpoint_every: float = 60.0
    """Seconds between two checkpoints of one training."""
    reset_version: int = 0
    """Whoever was born under an older version has weights that are to be forgotten."""
    barren: bool = False
    """Whether this worker lacks what these rules ask for (a plugin's selection, say): it then makes no children, takes
    over what it can train, and leaves the rest to others."""


class Job(NamedTuple):
    """Something to train: an individual of the worker's own, and what is at hand of it."""

    individual: Individual
    birth: Birth
    dna: DNA
    parent: Individual | None = None
    checkpoint: Checkpoint | None = None
    second: Individual | None = None
    """The other parent."""


class Worker:
    """Evolves a population, one step at a time.

    Individuals are trained under the settings that they were born under, so `evaluator` gives one for each version.
    `finishing` is the number of threads that it has for the finish; 0 if it leaves its core to one that has several.
    """

    def __init__(
        self,
        population: Population,
        rng: Random,
        *,
        rules: Callable[[], Rules],
        evaluator: Callable[[int], Evaluator],
        reason_to_stop: Callable[[], str | None] = lambda: None,
        phase: Callable[[], Phase] = Phase,
        step_time: StepTimes = lambda dna, crop: FREE_OF_CHARGE,
        size: Capacities = lambda dna: NOTHING,
        image: Shape | None = None,
        founder: Founder | None = None,
        finishing: int = 1,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.population, self.rng = population, rng
        self.reason_to_stop, self.clock = reason_to_stop, clock
        self._read_rules, self._evaluator, self._sleep = rules, evaluator, sleep
        self._phase, self._child_limits = phase, ChildLimits(step_time, size, image)
        self._founder, self._finishing = founder, finishing
        self.rules = rules()
        self._steps = self._troubles = 0

    def run(self) -> str:
        """Steps until there is a reason to stop, and tells it. What goes wrong in one step ends that step only."""
        while (reason := self.reason_to_stop()) is None:
            try:
                self.rules = self._read_rules()
                self._live_on()
                self._troubles = 0
            except StorageError as error:
                self._wait_for_storage(error)
            except StepAbandoned as error:
                log.debug("step abandoned: %s", error)
        return reason

    def _live_on(self) -> None:
        """One step, and then the burials."""
        self._steps += 1
        self.population.heartbeat("step", self._steps)
        self.step()
        for individual in self.population.garbage():
            self.population.collect(individual)

    def step(self) -> None:
        """One step of evolution: whatever is to be trained next is trained and becomes alive."""
        if (job := self.begin()) is not None:
            self.end(job, self.train(job))

    def begin(self) -> Job | None:
        """What there is to train: an abandoned individual, a child, or, where no two are alive, a trivial one."""
        if (orphans := self.population.orphans()) and self._can_train(orphan := self.rng.choice(orphans)):
            return self._resume(self.population.take_over(orphan))
        if self.rules.barren:
            self._sleep(REST)
            return None
        if self.rules.planning.is_finish(phase := self._phase()) and (ranking := self._ranking()):
            return self._train_further(ranking, phase)
        try:
            better, worse = self._draw_pair()
        except PopulationTooSmallError:
            return self._make_first()
        for individual in (better, worse):
            if self._is_to_be_forgotten(individual):
                return self._renew(individual)
        decision = self.rules.set_point(self.population.census(), self.rules.population_size, self.rng)
        if decision.kill and self._enough_alive():
            self.population.kill(worse)
        return self._reproduce(better) if decision.reproduce else None

    def _can_train(self, orphan: Individual) -> bool:
        """Whether what it was born under is known here; what is not is left to others."""
        try:
            self._evaluator(self.population.read_birth(orphan).settings_version)
        except SettingsError:
            return False
        return True

    def _draw_pair(self) -> Pair:
        """Two different trained individuals at random; one that is in training elsewhere is left in peace."""
        for _ in range(DRAWS):
            one, other = self.population.sample(self.rng), self.population.sample(self.rng)
            if one.id != other.id and one.state is other.state is State.ALIVE:
                return self.rules.selection(one, other, self.rng)
        raise PopulationTooSmallError("no two individuals are alive yet.")

    def _is_to_be_forgotten(self, individual: Individual) -> bool:
        """Whether its weights, and the fitness that it owes to them, are from before a reset of all weights."""
        since = self.rules.reset_version
        return bool(since) and self.population.read_birth(individual).settings_version < since

    def _renew(self, individual: Individual) -> Job:
        """The same network again with fresh weights, in the place of the one whose weights are to be forgotten.

        It is born before the other dies, so that no crash in between loses the network; of two who do this at once, one
        wins the other's death, and the loser gives its copy up.
        """
        plan = self.rules.planning.plan(self._phase())
        birth, dna = renewed_birth(individual, self._dna_of(individual), self.rng, self.rules.version, plan)
        child = self.population.create(birth)
        try:
            self.population.kill(individual, "reset")
        except ConcurrencyError:
            self.population.fail(child, "twice", "Somebody else renewed the same individual first.")
            raise
        return Job(child, birth, dna)

    def _enough_alive(self) -> bool:
        """Whether one may die; counted for this very death if it is close, for old counts could end in extinction."""
        needed = set_point.floor(self.rules.population_size)
        # Close is a quarter above the floor: at the set-point, twice the floor, no step can afford to count everybody.
        return self.population.census().alive > 1.25 * needed or self.population.census(fresh=True).alive >= needed

    def _reproduce(self, parent: Individual) -> Job:
        dna = self._dna_of(parent)
        plan = self.rules.planning.plan(self._phase(), rival=self._rival(parent))
        affordable = self._wanted(parent, plan)
        if (job := self._recombine(parent, dna, plan, affordable)) is not None:
            return job
        birth, child = next_birth(
            parent, dna, self.rules.breeding, self.rng, self.rules.version, plan, affordable, self._child_limits.image
        )
        return Job(self.population.create(birth, parents=(parent,)), birth, child, parent=parent)

    def _recombine(self, parent: Individual, dna: DNA, plan: Plan, affordable: Question) -> Job | None:
        """A child with a second parent, where these are asked for and it is this child's lot."""
        breeding = self.rules.breeding
        if breeding.recombination == "off" or self.rng.random() >= breeding.recombination_odds:
            return None
        if (second := self._second_parent(parent)) is None:
            return None
        newborn = recombined_birth(
            (parent, second),
            (dna, self._dna_of(second)),
            breeding,
            self.rng,
            self.rules.version,
            plan,
            affordable=affordable,
            image=self._child_limits.image,
        )
        if newborn is None:
            return None
        if breeding.recombination == "probabilities":  # the second gives no weights
            return Job(self.population.create(newborn.birth, parents=(parent,)), *newborn, parent=parent)
        child = self.population.create(newborn.birth, parents=(parent, second))
        return Job(child, *newborn, parent=parent, second=second)

    def _second_parent(self, first: Individual) -> Individual | None:
        """The winner of another tournament."""
        with suppress(PopulationTooSmallError):
            for _ in range(DRAWS):
                winner = self._draw_pair().better
                if winner.id != first.id and not self._is_to_be_forgotten(winner):
                    return winner
        return None

    def _dna_of(self, parent: Individual) -> DNA:
        try:
            return dna_of(self.population.read_birth(parent))
        except InvalidDNAError as error:
            self.population.quarantine(parent, "dna")
            raise ConcurrencyError(f"Individual {parent.id} has no usable DNA: {error}") from error

    def _rival(self, parent: Individual) -> float:
        """The accuracy that a child races against; fitness may be something else."""
        if not self.rules.planning.racing:
            return 0.0
        return float(self.population.read_result(parent).metrics.get("accuracy") or parent.fitness or 0.0)

    def _wanted(self, parent: Individual, plan: Plan) -> Question:
        """Whether a child may be born: it can be afforded, and is not too large to be trained at all."""
        questions = []
        if steps := self.rules.affordable:
            questions.append(self._child_limits.affordable(plan, steps, self.population, parent))
        if self.rules.largest is not None:
            questions.append(self._child_limits.bearable(self.rules.largest))
        return lambda child: all(question(child) for question in questions)

    def _ranking(self) -> list[Individual]:
        """Everybody who is alive, the best first."""
        alive = [individual for individual in self.population.snapshot() if individual.state is State.ALIVE]
        alive = [individual for individual in alive if not self._is_to_be_forgotten(individual)]
        return sorted(alive, key=lambda individual: individual.fitness or 0.0, reverse=True)

    def _train_further(self, ranking: list[Individual], phase: Phase) -> Job | None:
        """The last part of the budget: a copy of the best takes all the time that is left, and the place of the worst.

        Differs from the paper: no tournament decides, and one training has all the cores of a machine.
        """
        if (phase.unit == "seconds" and phase.left < SHORTEST) or not self._can_finish(phase):
            self._sleep(0.05)
            return None
        plan = self.rules.planning.plan(phase)
        if self._finishing > 1:
            plan = msgspec.structs.replace(plan, threads=self._finishing)
        best, worst = ranking[0], ranking[-1]
        if len(ranking) > self.rules.population_size and worst != best:
            self.population.kill(worst)
        birth, dna = copied_birth(best, self._dna_of(best), self.rng, self.rules.version, plan)
        return Job(self.population.create(birth, parents=(best,)), birth, dna, parent=best)

    def _can_finish(self, phase: Phase) -> bool:
        """Whether the cores are this worker's to use; for a short time it lets others end what they are training."""
        if self._finishing > 1 and self.rules.planning.is_eve(phase):
            return not any(individual.state is State.TRAINING for individual in self.population.snapshot())
        return self._finishing > 0

    def _make_first(self) -> Job | None:
        """One more to begin with; where enough are in training already, a short rest."""
        if self.population.census(fresh=True).living >= self.rules.population_size:
            self._sleep(0.05)
            return None
        plan = self.rules.planning.plan(self._phase(), trivial=self._founder is None)
        birth, dna = first_birth(self.rules.breeding, self.rng, self.rules.version, plan, self._founder)
        return Job(self.population.create(birth), birth, dna)

    def _resume(self, individual: Individual) -> Job | None:
        """What was taken over, unless taking it over has shown that there is nothing left to do."""
        if individual.state is not State.TRAINING:
            return None
        birth = self.population.read_birth(individual)
        try:
            return Job(individual, birth, dna_of(birth), checkpoint=self.population.checkpoint(individual))
        except InvalidDNAError as error:
            self.population.fail(individual, "dna", str(error))
            raise ConcurrencyError(f"Individual {individual.id} has no usable DNA: {error}") from error

    def train(self, job: Job) -> Trained:
        """Trains an individual of the worker's own under the settings that it was born under."""
        weights = self._heritage(job)
        second = Second(job.birth.mutations[0], weights[1]) if len(weights) > 1 else None
        try:
            return self._evaluator(job.birth.settings_version).evaluate(
                job.dna,
                seed=job.birth.training_seed,
                inherited=weights[0] if weights else None,
                checkpoint=job.checkpoint.data if job.checkpoint else None,
                observe=self._monitor(job.individual),
                plan=plan_of(job.birth),
                **({"second": second} if second else {}),  # an evaluator that knows but one parent will mostly do
            )
        except DataError as error:
            # Whole, but not what this program writes. The parent's are the same, and would spoil every child to come.
            for spoilt in filter(None, (job.individual, job.parent, job.second)):
                self.population.quarantine(spoilt, "weights")
            raise ConcurrencyError(f"Individual {job.individual.id} has no usable weights: {error}") from error

    def _monitor(self, individual: Individual) -> TrainingMonitor:
        return TrainingMonitor(
            self.population,
            individual,
            checkpoint_every=self.rules.checkpoint_every,
            reason_to_stop=self.reason_to_stop,
            clock=self.clock,
        )

    def end(self, job: Job, trained: Trained) -> None:
        """Stores what came of a training and makes the individual alive.

        On a full disk it tries again and again, for hours of training may be in it.
        """
        metrics = msgspec.to_builtins(trained.evaluation)
        fitness = metrics.pop("fitness")
        files = {WEIGHTS: trained.weights} if trained.weights is not None else {}
        while True:
            try:
                self.population.finish(job.individual, fitness=fitness, metrics=metrics, files=files)
                return
            except StorageError as error:
                if self.reason_to_stop() is not None:
                    raise
                self._wait_for_storage(error)

    def _heritage(self, job: Job) -> tuple[bytes, ...]:
        """The weights that were linked in, or the founder's if the individual has no parent."""
        if not job.birth.parents and self._founder is not None:
            return () if self._founder.weights is None else (self._founder.weights,)
        try:
            return self.population.inherited_weights(job.individual)
        except ConcurrencyError:
            # The parents' own weights may be damaged too. Reading them quarantines a damaged parent.
            for parent in filter(None, (job.parent, job.second)):
                self.population.weights(parent)
            raise

    def _wait_for_storage(self, error: StorageError) -> None:
        """A full or failing disk is somebody's to mend: says so, waits longer each time, and goes on."""
        self._troubles += 1
        wait = min(30.0, 0.1 * 2**self._troubles)
        log.warning("%s Trying again in %.1f s.", error, wait)
        self._sleep(wait)
