"""Births: the trivial individual, and the mutated copy of a parent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Literal, NamedTuple

import msgspec

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

    learning_rate: float = 0.1
    """Of the initial individuals."""
    mutations: int = 1
    """Mutations at each reproduction, one after another."""
    odds: Mapping[str, float] | None = None
    """By the mutations' names; None for the paper's eleven, all alike."""
    width_step: int = 1
    """What widths are multiples of."""
    recombination: Literal["off", "probabilities", "weights", "fusion"] = "off"
    """What children have of a second parent."""
    recombination_odds: float = 0.0
    """The share of children that have two."""
    lacking: tuple[str, ...] = ()
    """Mutations that belong to the odds, but are not known here; the record names them, since they change the draw."""


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
) -> Newborn:
    """A child of this parent, whose DNA is given. The seeds go into the record, so that it can be repeated.

    Differs from the paper where `affordable` says no: the mutation is drawn again, of the same kind if that can be, or
    growth would give way to whatever costs nothing; if it goes on saying no the child is a copy, trained further.
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
    return Newborn(_birth(child, (parent.id,), names, seed, rng, settings_version, plan, breeding.lacking), child)


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
