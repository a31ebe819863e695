"""What a mutation is, the registry of them, and the draw of one for a child.

A mutation takes a DNA and a source of random numbers and returns another DNA; it never changes the one it was given. A
mutation that cannot act on this DNA raises MutationError, and another one is drawn. To add one: a class with `mutate`,
and a registration here, in a plugin (genepool.registry), or through the entry point group `genepool.mutations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple, Protocol

from genepool.dna import DNA
from genepool.errors import GenepoolError, InvalidDNAError, MutationError, SettingsError, shown
from genepool.registry import Registry


class Mutation(Protocol):
    """One kind of change."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        """The mutated DNA, or MutationError if this kind cannot act on this DNA."""
        ...


MUTATIONS: Registry[type[Mutation]] = Registry("mutation", "genepool.mutations")

# The paper's own set, in its order. A plug-in takes part only where the odds name it.
ELEVEN = (
    "alter-learning-rate",
    "identity",
    "reset-weights",
    "insert-convolution",
    "remove-convolution",
    "alter-stride",
    "alter-number-of-channels",
    "filter-size",
    "insert-one-to-one",
    "add-skip",
    "remove-skip",
)


class Mutated(NamedTuple):
    """A mutated DNA and the name of the mutation that made it."""

    name: str
    dna: DNA


def new_id(dna: DNA, rng: Random) -> str:
    """A random ID for a new vertex or edge, unlike all that the DNA has.

    60 bits would do by themselves, were it not for people who use one seed twice.
    """
    while (name := f"{rng.getrandbits(60):015x}") in dna.vertex or name in dna.edge:
        pass
    return name


def apply(name: str, dna: DNA, rng: Random) -> DNA:
    """The DNA after the mutation of that name."""
    kind = MUTATIONS.get(name)
    try:
        child = kind().mutate(dna, rng)
    except InvalidDNAError as error:  # a number left the bounds that keep shapes computable
        raise MutationError(f"{name} would break a rule of the encoding: {error}") from error
    except GenepoolError:
        raise
    except Exception as error:
        if kind.__module__.startswith("genepool."):  # a fault of ours, to be reported as one
            raise
        raise _spoilt(name, f"{type(error).__name__}: {shown(str(error))}") from error
    if not isinstance(child, DNA):
        raise _spoilt(name, f"it returned no DNA, but {type(child).__name__}")
    return child


def _spoilt(name: str, fault: str) -> SettingsError:
    return SettingsError(f"The mutation '{name}' failed ({fault}); mend its plugin, or take away its mutation_odds.")


def mutate(dna: DNA, rng: Random, odds: Mapping[str, float] | None = None) -> Mutated:
    """Draws a mutation by its odds and applies it; one that cannot act gives way to another.

    By default the paper's eleven, all equally likely.
    """
    left = dict(odds) if odds is not None else dict.fromkeys(ELEVEN, 1.0)
    left = {name: weight for name, weight in left.items() if weight > 0}
    if not left:
        raise SettingsError("No mutation has odds above zero; give at least one.")
    while left:
        [name] = rng.choices(list(left), weights=list(left.values()))
        try:
            return Mutated(name, apply(name, dna, rng))
        except MutationError:
            del left[name]
    raise MutationError("none of the allowed mutations can act on this DNA.")
