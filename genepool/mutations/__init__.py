"""The eleven mutations of the paper, and the door for more. Randomness is always an argument; no torch in here."""

from genepool.mutations import connection, convolution, growth, numeric, training
from genepool.mutations.base import ELEVEN, MUTATIONS, Mutated, Mutation, apply, mutate, new_id

__all__ = [
    "ELEVEN",
    "MUTATIONS",
    "Mutation",
    "Mutated",
    "apply",
    "mutate",
    "new_id",
    "training",
    "numeric",
    "convolution",
    "connection",
    "growth",
]
