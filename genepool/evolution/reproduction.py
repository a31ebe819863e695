"""Births: the trivial individual, and the mutated copy of a parent."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from genepool.dna import DNA, Shape, decode, encode_in_a_line, in_steps, initial
from genepool.errors import MutationError
from genepool.evaluation import EVERYTHING_AS_SET, Plan
from genepool.mutations import ELEVEN, mutate
from genepool.mutations.recombination import ADOPTION, FUSION, MIXTURE, drifted, fuse, own_odds
from genepool.population import Birth, Individual

REDRAWS = 30
COPY = "identity"
RENEWAL = "renewal"
UNCHANGED = frozenset({COPY, RENEWAL})
"""What leaves the DNA as it is."""


class Breeding(msgspec.Struct, frozen=True, kw_only=True):
    """How children are made."""

    learning_rate: Annotated[float, Meta(ge=1e-12, le=1e6)] = 0.1
    """Learning rate of the initial individuals."""
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
    """Differs from the paper if it is not 1: mutations round widths to multiples of it, which take no longer than the
    widths in between."""

    def without(self, lacking: Collection[str]) -> Breeding:
        """The same rules in a process that lacks these mutations."""
        if self.odds is None or not lacking:
            return self
        odds = {name: weight for name, weight in self.odds.items() if name not in lacking}
        return msgspec.structs.replace(self, odds=odds)


class Newborn(NamedTuple):
    """A birth record, and the DNA in it as a value, so that its own worker need not decode it again."""

    birth: Birth
    dna: DNA


class Founder(NamedTuple):
    """Differs from the paper: what the first individuals are where they are not trivial, and what they inherit."""

    dna: DNA
    weights: bytes | None = None


def first_birth(
    breeding: Breeding,
    rng: Random,
    settings_version: int,
    plan: Plan = EVERYTHING_AS_SET,
    founder: Founder | None = None,
) -> Newborn:
    """An individual of the kind that the experiment begins with: trivial, unless there is a founder."""
    dna = initial(breeding.learning_rate) if founder is None else founder.dna
    return Newborn(_birth(dna, (), (), 0, rng, settings_version, plan), dna)


def next_birth(
    parent: Individual,
    dna: DNA,
    breeding: Breeding,
    rng: Random,
    settings_version: int,
    plan: Plan = EVERYTHING_AS_SET,
    affordable: Callable[[DNA], bool] = lambda child: True,
    image: Shape | None = None,
    lacking: tuple[str, ...] = (),
) -> Newborn:
    """A child of this parent, whose DNA is given. The seeds go into the record, so that it can be repeated.

    Differs from the paper where `affordable` says no: the mutation is drawn again, of the same kind if that can be, or
    growth would give way to whatever costs nothing; if it goes on saying no the child is a copy, trained further. The
    record names the mutations that this process is lacking, because they change the draw.
    """
    wanted, found = None, None
    for _ in range(REDRAWS):
        seed = rng.getrandbits(63)
        child, names = mutated(dna, breeding, seed, image)
        wanted = wanted or names
        if (found is None or names == wanted) and affordable(child):
            found = child, names, seed
            if names == wanted:
                break
    if found is None:
        return copied_birth(parent, dna, rng, settings_version, plan)
    child, names, seed = found
    return Newborn(_birth(child, (parent.id,), names, seed, rng, settings_version, plan, lacking), child)


def recombined_birth(
    parents: tuple[Individual, Individual],
    dnas: tuple[DNA, DNA],
    breeding: Breeding,
    rng: Random,
    settings_version: int,
    plan: Plan = EVERYTHING_AS_SET,
    affordable: Callable[[DNA], bool] = lambda child: True,
    image: Shape | None = None,
) -> Newborn | None:
    """A child of two, the first of whom its lineage follows; None where these two cannot have one that is affordable.

    Fusion needs the images' shape, since the widths of both are added up.
    """
    seed = rng.getrandbits(63)
    try:
        child, names = recombined(dnas, breeding, seed, image)
    except MutationError:
        return None
    if not affordable(child):
        return None
    ids = tuple(parent.id for parent in parents)
    return Newborn(_birth(child, ids, names, seed, rng, settings_version, plan), child)


def recombined(
    dnas: tuple[DNA, DNA], breeding: Breeding, seed: int, image: Shape | None
) -> tuple[DNA, tuple[str, ...]]:
    """The DNA of a child of two, and what made it: a pure function of its arguments."""
    if breeding.recombination == "weights":
        child, names = mutated(dnas[0], breeding, seed, image)
        return child, (MIXTURE, *names)
    if breeding.recombination == "probabilities":
        child, names = mutated(msgspec.structs.replace(dnas[0], odds=dnas[1].odds), breeding, seed, image)
        return child, (ADOPTION, *names)
    if image is None:
        raise MutationError("without the images' shape nothing can be fused.")
    return fuse(*dnas, image, Random(seed)), (FUSION,)


def copied_birth(parent: Individual, dna: DNA, rng: Random, settings_version: int, plan: Plan) -> Newborn:
    """The same network again, to be trained further; the paper's identity mutation, not drawn but meant."""
    return Newborn(_birth(dna, (parent.id,), (COPY,), 0, rng, settings_version, plan), dna)


def renewed_birth(former: Individual, dna: DNA, rng: Random, settings_version: int, plan: Plan) -> Newborn:
    """The same network again, to be trained from fresh weights: the simultaneous reset of the paper's supplement."""
    return Newborn(_birth(dna, (former.id,), (RENEWAL,), 0, rng, settings_version, plan), dna)


def plan_of(birth: Birth) -> Plan:
    """The plan in a birth record."""
    return msgspec.convert(birth.plan, Plan) if birth.plan else EVERYTHING_AS_SET


def mutated(dna: DNA, breeding: Breeding, seed: int, image: Shape | None = None) -> tuple[DNA, tuple[str, ...]]:
    """The DNA after a reproduction's mutations, and their names: a pure function of its arguments.

    Widths in steps need the images' shape, since they follow from their channels.
    """
    rng, names, odds, parent = Random(seed), [], breeding.odds, dna
    evolving = breeding.recombination == "probabilities"
    if evolving:
        odds = own_odds(dna, breeding.odds or dict.fromkeys(ELEVEN, 1.0))
    for _ in range(breeding.mutations):
        name, dna = mutate(dna, rng, odds)
        names.append(name)
    if breeding.width_step > 1 and image is not None:
        dna = in_steps(dna, parent, image, breeding.width_step)
    return drifted(dna, odds, rng) if evolving and odds else dna, tuple(names)


def dna_of(birth: Birth) -> DNA:
    """The DNA in a birth record."""
    return decode(bytes(birth.dna))


def _birth(
    dna: DNA,
    parents: tuple[str, ...],
    mutations: tuple[str, ...],
    mutation_seed: int,
    rng: Random,
    version: int,
    plan: Plan,
    lacking: tuple[str, ...] = (),
) -> Birth:
    return Birth(
        dna=msgspec.Raw(encode_in_a_line(dna)),
        parents=parents,
        mutations=mutations,
        mutation_seed=mutation_seed,
        training_seed=rng.getrandbits(63),
        settings_version=version,
        plan=msgspec.to_builtins(plan),
        lacking=lacking,
    )
