"""Mutations of the learning rate, the weights, and one number of one convolution.

Mutations that leave the architecture as it is and change how, or from what weights, it is trained.

Mutations of one number of one convolution: uniform around the old value (the paper's "Encoding and Mutations").

A number is drawn between half and twice its value; a stride moves by up to one in its logarithm to base 2, since only
powers of two are allowed.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA, Conv
from genepool.errors import MutationError
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


def random_conv(dna: DNA, rng: Random) -> Conv:
    """A convolution that mutations may change."""
    candidates = [conv for conv in dna.convs if dna.is_mutable(conv)]
    if not candidates:
        raise MutationError("there is no convolution to change.")
    return rng.choice(candidates)


@MUTATIONS.register("alter-stride")
class AlterStride:
    """Of a random convolution; not below 1."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        conv = random_conv(dna, rng)
        scale = max(0.0, conv.stride_scale + rng.uniform(-1.0, 1.0))
        return dna.edited(put=[replace(conv, stride_scale=scale)])


@MUTATIONS.register("alter-number-of-channels")
class AlterNumberOfChannels:
    """Of a random convolution's output."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        conv = random_conv(dna, rng)
        return dna.edited(put=[replace(conv, depth_factor=rng.uniform(conv.depth_factor / 2, conv.depth_factor * 2))])


@MUTATIONS.register("filter-size")
class FilterSize:
    """Of a random convolution, width or height at random; odd sizes only, by way of the half size."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        conv = random_conv(dna, rng)
        if rng.random() < 0.5:
            return dna.edited(put=[replace(conv, filter_half_width=self._draw(conv.filter_half_width, rng))])
        return dna.edited(put=[replace(conv, filter_half_height=self._draw(conv.filter_half_height, rng))])

    @staticmethod
    def _draw(half: float, rng: Random) -> float:
        size = 2 * half + 1
        return max(0.0, (rng.uniform(size / 2, size * 2) - 1) / 2)
