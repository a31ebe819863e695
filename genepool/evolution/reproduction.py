"""Births: first individuals, mutated children, children of two parents, copies."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from genepool.dna import DNA, Shape, encode_in_a_line, in_steps, initial
from genepool.errors import (
    ConcurrencyError,
    InvalidDNAError,
    LayerError,
    MissingLayerError,
    MutationError,
    PopulationTooSmallError,
)
from genepool.evaluation import TrainingBudget
from genepool.evolution.budget import BudgetUse
from genepool.evolution.child_limits import ChildLimits, IsAllowed
from genepool.evolution.departures import WeightReset
from genepool.evolution.selection import DRAWS, draw_pair
from genepool.evolution.training import Job, dna_of
from genepool.mutations import ADOPTION, ELEVEN, FUSION, MIXTURE, drifted, fuse, mutate, own_odds
from genepool.population import Birth, Individual, Population

if TYPE_CHECKING:
    from genepool.evolution.worker import Rules

REDRAWS = 30  # mutations drawn at most until a child is allowed
COPY, RENEWAL = "identity", "renewal"
UNCHANGED = frozenset({COPY, RENEWAL})  # names in birth records that stand for an unchanged DNA
Individuals = tuple[Individual, ...]


class Breeding(msgspec.Struct, frozen=True, kw_only=True):
    """How children are made."""

    learning_rate: Annotated[float, Meta(ge=1e-12, le=1e6)] = 0.1
    """Learning rate of the initial individuals, and of pretrained networks for new classes."""
    body_rate: Annotated[float, Meta(ge=1e-6, le=1e3)] = 1.0
    """Differs from the paper if it is not 1: their learning rate in all layers but the classifier, as a fraction."""
    mutations: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Mutations per reproduction, one after another."""
    odds: Annotated[dict[str, Annotated[float, Meta(ge=0, lt=1e9)]], Meta(min_length=1)] | None = None
    """Odds of the mutations by name. Differs from the paper if given: the paper's eleven have equal odds."""
    recombination: Literal["off", "probabilities", "weights", "fusion"] = "off"
    """Differs from the paper's main results if not off: children of two parents, which pass on the odds of mutations
    (these then evolve too), mix their weights, or are fused side by side."""
    recombination_odds: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """With `recombination`: the share of children that have two parents."""
    width_step: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Differs from the paper if it is not 1: mutations round widths to multiples of it, which take no longer."""

    def without(self, lacking: Collection[str]) -> Breeding:
        if self.odds is None or not lacking:
            return self
        odds = {name: weight for name, weight in self.odds.items() if name not in lacking}
        return msgspec.structs.replace(self, odds=odds)


class Founder(NamedTuple):
    """Differs from the paper: a first individual that is not trivial, and the weights that it begins with."""

    dna: DNA
    weights: bytes | None = None


class Parent(NamedTuple):
    """An individual that can be reproduced, with its DNA."""

    individual: Individual
    dna: DNA


class Offspring(NamedTuple):
    """The DNA of a new individual, and how it was made."""

    dna: DNA
    mutations: tuple[str, ...] = ()
    seed: int = 0  # seed of the mutations; 0 if nothing was drawn


@dataclass(frozen=True)
class Reproduction:
    """The births of one step. Each method creates an individual in the population and returns the job to train it."""

    population: Population
    rng: Random
    rules: Rules
    use: BudgetUse = field(default_factory=BudgetUse)
    limits: ChildLimits = ChildLimits()  # noqa: RUF009 - a frozen value
    founder: Founder | None = None

    @property
    def weight_reset(self) -> WeightReset:
        return WeightReset(self.population, self.rules.reset_version)

    def first(self) -> Job:
        """Create an individual as the experiment begins with: the founder, or else the trivial network."""
        rates = self.rules.breeding.learning_rate, self.rules.breeding.body_rate
        dna = self.founder.dna if self.founder else initial(*rates)
        dna.require_kinds()
        return self._born(Offspring(dna), self._budget(trivial=self.founder is None))

    def parent(self, individual: Individual) -> Parent:
        """Read the DNA of an individual, before any other dies for its child: MissingLayerError leaves it to other
        workers, and one that is damaged is put into quarantine."""
        dna = self._dna(individual)
        dna.require_kinds()
        return Parent(individual, dna)

    def child_of(self, parent: Parent) -> Job:
        first, dna = parent
        budget = self._budget(rival=self._rival(first))
        is_allowed = self._is_allowed(first, budget)
        if (other := self._second_parent(first)) is not None:
            child, second = self._child_of_two((dna, other.dna), is_allowed), other.individual
            if child is not None:
                gives_weights = self.rules.breeding.recombination != "probabilities"
                return self._born(child, budget, (first, second), (first, second) if gives_weights else (first,))
        child = allowed_child(dna, self.rules.breeding, self.rng, is_allowed, self.limits.image)
        return self._born(child or Offspring(dna, (COPY,)), budget, (first,), (first,))

    def copy_of(self, parent: Parent, threads: int = 0) -> Job:
        """Create the same network again, to be trained further with all of its weights."""
        budget, rate = msgspec.structs.replace(self._budget(), threads=threads), self.rules.final_phase.learning_rate
        if rate is not None:
            factor = budget.learning_rate_factor * rate / parent.dna.learning_rate
            budget = msgspec.structs.replace(budget, learning_rate_factor=factor)
        return self._born(Offspring(parent.dna, (COPY,)), budget, (parent.individual,), (parent.individual,))

    def renewal_of(self, former: Individual) -> Job:
        """Create the same network again, to be trained from random weights."""
        return self._born(Offspring(self.parent(former).dna, (RENEWAL,)), self._budget(), (former,))

    def _born(
        self, offspring: Offspring, budget: TrainingBudget, parents: Individuals = (), weights_from: Individuals = ()
    ) -> Job:
        """Create the individual. All seeds go into its record, so that its birth and its training can be repeated."""
        birth = Birth(
            dna=msgspec.Raw(encode_in_a_line(offspring.dna)),
            parents=tuple(parent.id for parent in parents),
            mutations=offspring.mutations,
            mutation_seed=offspring.seed,
            training_seed=self.rng.getrandbits(63),
            settings_version=self.rules.version,
            training_budget=msgspec.to_builtins(budget),
            lacking=self.rules.lacking if offspring.seed and len(parents) == 1 else (),
        )
        individual = self.population.create(birth, parents=weights_from)
        return Job(individual, birth, offspring.dna, weights_from)

    def _dna(self, individual: Individual) -> DNA:
        try:
            return dna_of(self.population.read_birth(individual))
        except InvalidDNAError as error:
            self.population.quarantine(individual, "dna")
            raise ConcurrencyError(f"Individual {individual.id} has no usable DNA: {error}") from error

    def _budget(self, *, trivial: bool = False, rival: float = 0.0) -> TrainingBudget:
        budget, phase, steps = self.rules.training_budget.budget, self.rules.final_phase, self.rules.training.steps
        return budget(self.use, final_phase=phase, max_steps=steps, trivial=trivial, rival=rival)

    def _rival(self, parent: Individual) -> float:
        """Return the accuracy that a child races against; the parent's fitness may be something else."""
        if self.rules.training_budget.racing is None:
            return 0.0
        return float(self.population.read_result(parent).metrics.get("accuracy") or parent.fitness or 0.0)

    def _is_allowed(self, parent: Individual, budget: TrainingBudget) -> IsAllowed:
        tests, limits = [], self.rules.limits
        if limits.child_steps is not None:
            tests.append(self.limits.affordable(budget, limits.child_steps, self.population, parent))
        if limits.redraw:
            tests.append(self.limits.within(limits))
            if limits.is_slow(self.population.read_result(parent).metrics.get("milliseconds")):
                tests.append(self.limits.smaller_than(self._dna(parent)))
        return lambda child: all(test(child) for test in tests)

    def _second_parent(self, first: Individual) -> Parent | None:
        breeding = self.rules.breeding
        if breeding.recombination == "off" or self.rng.random() >= breeding.recombination_odds:
            return None
        with suppress(PopulationTooSmallError):
            for _ in range(DRAWS):
                winner = draw_pair(self.population, self.rules.selection, self.rng).better
                if winner.id != first.id and not self.weight_reset.applies_to(winner):
                    with suppress(MissingLayerError):
                        return self.parent(winner)
        return None

    def _child_of_two(self, dnas: tuple[DNA, DNA], is_allowed: IsAllowed) -> Offspring | None:
        try:
            child = recombined(dnas, self.rules.breeding, self.rng.getrandbits(63), self.limits.image)
        except (MutationError, LayerError):
            return None
        return child if is_allowed(child.dna) else None


def allowed_child(
    dna: DNA, breeding: Breeding, rng: Random, is_allowed: IsAllowed, image: Shape | None = None
) -> Offspring | None:
    """Return a mutated child that is allowed, or None. Differs from the paper if a child is not allowed: the mutation
    is drawn again, of the same kind if possible; otherwise growth would give way to mutations that cost nothing."""
    wanted, found = None, None
    for _ in range(REDRAWS):
        child = mutated(dna, breeding, rng.getrandbits(63), image)
        wanted = wanted or child.mutations
        if (found is None or child.mutations == wanted) and is_allowed(child.dna):
            found = child
            if child.mutations == wanted:
                break
    return found


def mutated(dna: DNA, breeding: Breeding, seed: int, image: Shape | None = None) -> Offspring:
    """Return a mutated child, a pure function of its arguments; rounding widths needs the shape of the images."""
    rng, names, parent = Random(seed), [], dna
    evolving = breeding.recombination == "probabilities"
    odds = own_odds(dna, breeding.odds or dict.fromkeys(ELEVEN, 1.0)) if evolving else breeding.odds
    for _ in range(breeding.mutations):
        name, dna = mutate(dna, rng, odds)
        names.append(name)
    if breeding.width_step > 1 and image is not None:
        with suppress(LayerError):  # its evaluation fails with the reason
            dna = in_steps(dna, parent, image, breeding.width_step)
    return Offspring(drifted(dna, odds, rng) if evolving and odds else dna, tuple(names), seed)


def recombined(dnas: tuple[DNA, DNA], breeding: Breeding, seed: int, image: Shape | None) -> Offspring:
    """Return a child of two parents, a pure function of its arguments; fusion needs the shape of the images."""
    first, second = dnas
    if breeding.recombination == "weights":
        child = mutated(first, breeding, seed, image)
        return child._replace(mutations=(MIXTURE, *child.mutations))
    if breeding.recombination == "probabilities":
        child = mutated(msgspec.structs.replace(first, odds=second.odds), breeding, seed, image)
        return child._replace(mutations=(ADOPTION, *child.mutations))
    if image is None:
        raise MutationError("fusion needs the shape of the images.")
    return Offspring(fuse(first, second, image, Random(seed)), (FUSION,), seed)
