"""The learning rate of all layers but the classifier, which pretrained networks need.

Differs from the paper, where one learning rate holds for all layers. The mutation takes part only if the odds name it.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA
from genepool.mutations.base import MUTATIONS


@MUTATIONS.register("alter-body-rate")
def alter_body_rate(dna: DNA, rng: Random) -> DNA:
    """Multiply the body rate by a factor between 1/2 and 2, uniform in its logarithm, as for the learning rate."""
    return replace(dna, body_rate=dna.body_rate * 2 ** rng.uniform(-1.0, 1.0))
