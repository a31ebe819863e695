"""The eleven mutations of the paper, two that grow faster, the door for more. Randomness is an argument; no torch."""

from genepool.mutations import growth, numbers, structure
from genepool.mutations.base import ELEVEN, MUTATIONS, Mutated, Mutation, apply, mutate, new_id

__all__ = [
    "ELEVEN",
    "MUTATIONS",
    "Mutation",
    "Mutated",
    "apply",
    "mutate",
    "new_id",
    "growth",
    "numbers",
    "structure",
]
