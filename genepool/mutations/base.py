"""The mutation type, the registry of mutations and the draw of one for a child. A mutation is a function from a DNA and
a random generator to a new DNA. It raises MutationError if it cannot act on this DNA, and another one is drawn.
Register your own here, in a plugin (genepool.registry) or through the entry point group `genepool.mutations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple, Protocol

from genepool.dna import DNA
from genepool.errors import GenepoolError, InvalidDNAError, LayerError, MutationError, SettingsError, shown
from genepool.layers import LAYERS, fault_of, plugin_kinds
from genepool.registry import Registry


class Mutation(Protocol):
    """A function `(dna, rng) -> dna`."""

    def __call__(self, dna: DNA, rng: Random, /) -> DNA: ...


MUTATIONS: Registry[Mutation] = Registry("mutation", "genepool.mutations")

# The paper's set, in its order. Other mutations take part only if the odds name them.
ELEVEN = (
    "alter-learning-rate", "identity", "reset-weights", "insert-convolution", "remove-convolution", "alter-stride",
    "alter-number-of-channels", "filter-size", "insert-one-to-one", "add-skip", "remove-skip",
)  # fmt: skip


class Mutated(NamedTuple):
    name: str
    dna: DNA


def new_id(dna: DNA, rng: Random) -> str:
    """Return a random ID that the DNA does not contain yet; the same seed may be used twice."""
    while (name := f"{rng.getrandbits(60):015x}") in dna.vertex or name in dna.edge:
        pass
    return name


def apply(name: str, dna: DNA, rng: Random) -> DNA:
    mutation = MUTATIONS.get(name)
    dna.require_kinds()
    try:
        child = mutation(dna, rng)
    except LayerError as error:
        raise MutationError(f"{name} cannot act: {error}") from error
    except InvalidDNAError as error:  # for example a number outside the bounds that keep shapes computable
        raise MutationError(f"{name} would break a rule of the encoding: {error}") from error
    except GenepoolError:
        raise
    except Exception as error:
        if (fault := fault_of(error, dna.layers)) is not None:
            raise MutationError(f"{name} cannot act: {fault}") from error
        if getattr(mutation, "__module__", "").startswith("genepool."):  # a bug of ours: keep the traceback
            raise
        raise _plugin_failure(name, f"{type(error).__name__}: {shown(str(error))}") from error
    if not isinstance(child, DNA):
        raise _plugin_failure(name, f"it returned {type(child).__name__} instead of a DNA")
    for kind in plugin_kinds(child.layers):
        if LAYERS.loaded.get(str(kind.__struct_config__.tag)) is not kind:
            raise _plugin_failure(name, f"it made a layer of the class {kind.__name__}, which is not registered")
    return child


def _plugin_failure(name: str, fault: str) -> SettingsError:
    return SettingsError(f"The mutation '{name}' failed ({fault}); fix its plugin or set its odds to 0.")


def mutate(dna: DNA, rng: Random, odds: Mapping[str, float] | None = None) -> Mutated:
    """Draw a mutation by its odds (by default, the eleven are equally likely); if it cannot act, draw another one."""
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
