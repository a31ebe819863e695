"""A custom mutation: make one rectifier of the network leaky.

    genepool run DIR --plugin examples/leaky_mutation.py --set breeding.odds.leak=2

A mutation is a function from a DNA and a random generator to a new DNA. It raises MutationError if it cannot act, and
another mutation is drawn.
"""

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA
from genepool.errors import MutationError
from genepool.layers import BatchNormRelu
from genepool.mutations import MUTATIONS


@MUTATIONS.register("leak")
def leak(dna: DNA, rng: Random) -> DNA:
    rectifiers = [vertex for vertex in dna.vertices if isinstance(vertex, BatchNormRelu) and vertex.properties_mutable]
    if not rectifiers:
        raise MutationError("there is no rectifier yet.")
    return dna.edited(put=[replace(rng.choice(rectifiers), leakiness=rng.uniform(0.01, 0.3))])
