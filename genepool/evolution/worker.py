"""One worker: an endless loop of evolutionary steps on a population that it shares with other workers.

Follows "Evolutionary Algorithm" in the paper and `evolve_population` in its supplement S1. Workers never communicate,
except if they share the training of the final phase.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Literal

import msgspec

from genepool.errors import MissingLayerError, PopulationTooSmallError, StepAbandoned, StorageError, shown
from genepool.evaluation import Evaluators, Limits, Training, most_slices
from genepool.evolution.child_limits import ChildLimits
from genepool.evolution.departures import FinalPhase, FinalTraining, Orphans
from genepool.evolution.helper import Helper
from genepool.evolution.reproduction import Breeding, Founder, Reproduction
from genepool.evolution.selection import Selection, draw_pair, tournament
from genepool.evolution.set_point import Decision, SetPoint, damped, floor
from genepool.evolution.training import Job, StopRequested, Surroundings, Trainer
from genepool.evolution.training_budget import TrainingBudgetRules
from genepool.population import Population

log = logging.getLogger(__name__)

Founders = Literal["population", "two"]  # how many first individuals an experiment begins with
BUSY_PAUSE = 0.05  # seconds that a worker waits if there is neither room for a birth nor anyone who may die
IDLE_PAUSE = 0.5  # seconds that a worker which cannot reproduce waits before it looks for orphans again


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force. Re-read before every step, because settings can change during a run."""

    version: int = 1
    """The version of the settings that they were made from."""
    population_size: int = 1000
    founders: Founders = "population"
    selection: Selection = tournament
    set_point: SetPoint = damped
    breeding: Breeding = Breeding()
    lacking: tuple[str, ...] = ()
    """Mutations with odds that this process lacks. The record names them, because they change the draw."""
    training_budget: TrainingBudgetRules = TrainingBudgetRules()
    final_phase: FinalPhase = FinalPhase()
    training: Training = Training()
    limits: Limits = Limits()
    reset_version: int = 0
    """The weights of individuals born under an older version are discarded."""
    can_reproduce: bool = True
    """False if this process lacks a plugin that the rules need: it then only takes over what it can train."""


class Worker:
    """Evolves a population step by step; individuals are trained under the settings that they were born under."""

    def __init__(
        self,
        population: Population,
        rng: Random,
        *,
        rules: Callable[[], Rules],
        evaluator: Evaluators,
        surroundings: Surroundings = Surroundings(),  # noqa: B008 - a frozen value
        limits: ChildLimits = ChildLimits(),  # noqa: B008 - a frozen value
        founder: Founder | None = None,
    ) -> None:
        self.population, self.rng = population, rng
        self._read_rules, self.rules = rules, rules()
        self._limits, self._founder = limits, founder
        self.trainer = Trainer(population, evaluator, surroundings, founder.weights if founder else None)
        self._helper = Helper(
            population,
            evaluator,
            number=surroundings.sharing.number if surroundings.sharing else 0,
            clock=surroundings.clock,
            tick=self._tick_while_helping,
        )
        self._steps = 0
        self._reported: set[str] = set()
        self._is_founding = True
        """Whether first individuals may be missing; once false, it stays so."""

    @property
    def surroundings(self) -> Surroundings:
        return self.trainer.surroundings

    def run(self) -> str:
        """Take steps until there is a reason to stop, and return it. An error in one step ends only that step."""
        while (reason := self.surroundings.reason_to_stop()) is None:
            try:
                self.rules = self._read_rules()
                self.step_and_collect()
                self.trainer.storage_works()
            except StorageError as error:
                self.trainer.wait_for_storage(error)
            except MissingLayerError as error:
                self._report(error)
                self.surroundings.sleep(BUSY_PAUSE)
            except StepAbandoned as error:
                log.debug("step abandoned: %s", error)
        return reason

    def step_and_collect(self) -> None:
        self._steps += 1
        self.population.heartbeat("step", self._steps, self.trainer.flops)
        self.step()
        for individual in self.population.garbage():
            self.population.collect(individual)

    def step(self) -> None:
        """Take one evolutionary step (paper, "Evolutionary Algorithm")."""
        reproduction = self._reproduction()
        if self._departs_from_the_paper(reproduction):
            return
        if self._lacks_founders():
            self.train(reproduction.first())
            return
        try:
            better, worse = pair = draw_pair(self.population, self.rules.selection, self.rng)
        except PopulationTooSmallError:
            self._add_first_individual(reproduction)
            return
        if (job := reproduction.weight_reset.renewed(pair, reproduction.renewal_of)) is not None:
            self.train(job)
            return
        census = self.population.census()
        decision = self.rules.set_point(census, self.rules.population_size, self.rng)
        if decision.kill and not self._enough_alive():
            # No birth takes the place of a death that does not happen.
            decision = Decision(False, decision.reproduce and census.living < self.rules.population_size)
        # First, so that no individual dies in a step whose winner this worker cannot reproduce.
        parent = reproduction.parent(better) if decision.reproduce else None
        if decision.kill:
            self.population.kill(worse)
        if parent is not None:
            self.train(reproduction.child_of(parent))
        elif not decision.kill:
            self.surroundings.sleep(BUSY_PAUSE)

    def train(self, job: Job) -> None:
        most_peers = 0
        if self._shares_trainings() and self.rules.final_phase.has_begun(self.surroundings.budget_use()):
            most_peers = most_slices(self.rules.training.batch) - 1
        self.trainer.train(job, self.rules.training.checkpoint_every, most_peers)

    def _shares_trainings(self) -> bool:
        is_possible = self.surroundings.sharing is not None and most_slices(self.rules.training.batch) > 1
        return is_possible and self.rules.final_phase.parallel

    def _tick_while_helping(self) -> None:
        """Send a heartbeat, and leave the training of another worker for a reason to stop or for an orphan."""
        self._steps += 1
        self.population.heartbeat("help", self._steps, self.trainer.flops)
        if (reason := self.surroundings.reason_to_stop()) is not None:
            raise StopRequested(reason)
        if self._orphans().found() is not None:
            raise StopRequested("an individual has lost its worker")

    def _report(self, missing: MissingLayerError) -> None:
        """Log once per kind that individuals are left to other workers."""
        for kind in sorted(set(missing.kinds) - self._reported):
            log.warning(
                "This worker lacks the layer '%s' and leaves individuals that have it to other workers; start one with "
                "--plugin to have them reproduced and trained.", shown(kind),
            )  # fmt: skip
        self._reported.update(missing.kinds)

    def _reproduction(self) -> Reproduction:
        use = self.surroundings.budget_use()
        return Reproduction(self.population, self.rng, self.rules, use, self._limits, self._founder)

    def _departs_from_the_paper(self, reproduction: Reproduction) -> bool:
        """Whether this step was spent on something that the paper's algorithm does not have."""
        if self._orphans().handled(self.train):
            return True
        if not self.rules.can_reproduce:
            self.surroundings.sleep(IDLE_PAUSE)
            return True
        helper = self._helper if self._shares_trainings() else None
        final = FinalTraining(reproduction, helper, self.surroundings.final_phase_threads, self.surroundings.sleep)
        return final.handled(self.train)

    def _orphans(self) -> Orphans:
        return Orphans(self.population, self.rng, self.trainer.evaluator, self._report)

    def _lacks_founders(self) -> bool:
        """Whether the experiment still begins: "with a population of simple individuals" (the paper's text). It has
        begun once the population was complete, a child was born or an individual has ended. Dead ones leave a fossil,
        but reading all fossils of a long experiment takes time, so a living child is looked for first."""
        if not self._is_founding or self.rules.founders == "two":
            return False
        census = self.population.census(fresh=True)
        self._is_founding = (
            census.living < self.rules.population_size
            and not census.dead + census.failed
            and not (census.living and self.population.read_birth(self.population.sample(self.rng)).parents)
            and next(iter(self.population.fossils()), None) is None
        )
        return self._is_founding

    def _add_first_individual(self, reproduction: Reproduction) -> None:
        if self.population.census(fresh=True).living >= self.rules.population_size:
            self.surroundings.sleep(BUSY_PAUSE)
        else:
            self.train(reproduction.first())

    def _enough_alive(self) -> bool:
        """Whether one may die. The census is refreshed if it is a close call: old counts could end in extinction."""
        needed = floor(self.rules.population_size)
        # A close call is up to a quarter above the floor: at the set-point, which is twice the floor, counting all
        # individuals in each step would be too slow.
        return self.population.census().alive > 1.25 * needed or self.population.census(fresh=True).alive >= needed
