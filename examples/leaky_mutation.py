"""A mutation of one's own: lets one rectifier of the network through a little below zero.

    genepool run DIR --plugin examples/leaky_mutation.py --set breeding.odds.leak=2

A mutation takes a DNA and a source of random numbers and returns another DNA. One that cannot act raises MutationError,
and another is drawn.
"""

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA
from genepool.errors import MutationError
from genepool.mutations import MUTATIONS


@MUTATIONS.register("leak")
class Leak:
    def mutate(self, dna: DNA, rng: Random) -> DNA:
        rectifiers = [vertex for vertex in dna.vertices if vertex.type == "bn_relu" and vertex.properties_mutable]
        if not rectifiers:
            raise MutationError("there is no rectifier yet.")
        return dna.edited(put=[replace(rng.choice(rectifiers), leakiness=rng.uniform(0.01, 0.3))])
