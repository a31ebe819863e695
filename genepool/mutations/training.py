"""Mutations that leave the architecture as it is and change how, or from what weights, it is trained."""

from __future__ import annotations

from random import Random

from genepool.dna import DNA
from genepool.mutations.base import MUTATIONS, new_id


@MUTATIONS.register("alter-learning-rate")
class AlterLearningRate:
    """Times a factor between a half and two, uniform in its logarithm."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        return dna.edited(learning_rate=dna.learning_rate * 2 ** rng.uniform(-1.0, 1.0))


@MUTATIONS.register("identity")
class IdentityMutation:
    """Changes nothing: the child goes on training where its parent stopped."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        return dna


@MUTATIONS.register("reset-weights")
class ResetWeights:
    """The same network under new IDs: weights are inherited by ID, so none is."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        return dna.renamed({thing.id: new_id(dna, rng) for thing in (*dna.vertices, *dna.edges)})
