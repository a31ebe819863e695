"""Births: the trivial individual, and the mutated copy of a parent."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import msgspec

from genepool.dna import DNA, decode, encode_in_a_line, initial
from genepool.mutations import mutate
from genepool.population import Birth, Individual


class Breeding(msgspec.Struct, frozen=True, kw_only=True):
    """How children are made."""

    learning_rate: float = 0.1
    """Of the initial individuals."""
    mutations: int = 1
    """Mutations at each reproduction, one after another."""
    odds: Mapping[str, float] | None = None
    """By the mutations' names; None for the paper's eleven, all alike."""


class Newborn(NamedTuple):
    """A birth record, and the DNA in it as a value, so that its own worker need not decode it again."""

    birth: Birth
    dna: DNA


def first_birth(breeding: Breeding, rng: Random, settings_version: int) -> Newborn:
    """An individual of the trivial kind that every experiment begins with."""
    dna = initial(breeding.learning_rate)
    return Newborn(_birth(dna, (), (), 0, rng, settings_version), dna)


def next_birth(parent: Individual, dna: DNA, breeding: Breeding, rng: Random, settings_version: int) -> Newborn:
    """A child of this parent, whose DNA is given. The seeds go into the record, so that it can be repeated."""
    seed = rng.getrandbits(63)
    child, names = mutated(dna, breeding, seed)
    return Newborn(_birth(child, (parent.id,), names, seed, rng, settings_version), child)


def mutated(dna: DNA, breeding: Breeding, seed: int) -> tuple[DNA, tuple[str, ...]]:
    """The DNA after a reproduction's mutations, and their names: a pure function of its arguments."""
    rng, names = Random(seed), []
    for _ in range(breeding.mutations):
        name, dna = mutate(dna, rng, breeding.odds)
        names.append(name)
    return dna, tuple(names)


def dna_of(birth: Birth) -> DNA:
    """The DNA in a birth record."""
    return decode(bytes(birth.dna))


def _birth(
    dna: DNA, parents: tuple[str, ...], mutations: tuple[str, ...], mutation_seed: int, rng: Random, version: int
) -> Birth:
    return Birth(
        dna=msgspec.Raw(encode_in_a_line(dna)),
        parents=parents,
        mutations=mutations,
        mutation_seed=mutation_seed,
        training_seed=rng.getrandbits(63),
        settings_version=version,
    )
