"""Mutations of the learning rate, the weights and the numbers of one convolution.

Numbers are drawn uniformly between half and twice the old value (the paper's "Encoding and Mutations"); strides and
learning rates uniformly in log2, since strides are powers of two.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA, Conv
from genepool.errors import MutationError
from genepool.mutations.base import MUTATIONS, new_id


@MUTATIONS.register("alter-learning-rate")
def alter_learning_rate(dna: DNA, rng: Random) -> DNA:
    """Multiply the learning rate by a factor between 1/2 and 2, uniform in its logarithm."""
    return dna.edited(learning_rate=dna.learning_rate * 2 ** rng.uniform(-1.0, 1.0))


@MUTATIONS.register("identity")
def identity(dna: DNA, rng: Random) -> DNA:
    """Change nothing: the child continues its parent's training."""
    return dna


@MUTATIONS.register("reset-weights")
def reset_weights(dna: DNA, rng: Random) -> DNA:
    """Give every vertex and edge a new ID: weights are inherited by ID, so none are."""
    return dna.renamed({thing.id: new_id(dna, rng) for thing in (*dna.vertices, *dna.edges)})


def random_conv(dna: DNA, rng: Random) -> Conv:
    """Draw a convolution that mutations may change."""
    candidates = [conv for conv in dna.convs if dna.is_mutable(conv)]
    if not candidates:
        raise MutationError("there is no convolution to change.")
    return rng.choice(candidates)


@MUTATIONS.register("alter-stride")
def alter_stride(dna: DNA, rng: Random) -> DNA:
    """Change the stride of a random convolution; it stays at least 1."""
    conv = random_conv(dna, rng)
    scale = max(0.0, conv.stride_scale + rng.uniform(-1.0, 1.0))
    return dna.edited(put=[replace(conv, stride_scale=scale)])


@MUTATIONS.register("alter-number-of-channels")
def alter_number_of_channels(dna: DNA, rng: Random) -> DNA:
    """Change the number of output channels of a random convolution."""
    conv = random_conv(dna, rng)
    return dna.edited(put=[replace(conv, depth_factor=rng.uniform(conv.depth_factor / 2, conv.depth_factor * 2))])


@MUTATIONS.register("filter-size")
def filter_size(dna: DNA, rng: Random) -> DNA:
    """Change the filter width or height of a random convolution; sizes stay odd because the half size is stored."""
    conv = random_conv(dna, rng)
    if rng.random() < 0.5:
        return dna.edited(put=[replace(conv, filter_half_width=_new_half(conv.filter_half_width, rng))])
    return dna.edited(put=[replace(conv, filter_half_height=_new_half(conv.filter_half_height, rng))])


def _new_half(half: float, rng: Random) -> float:
    size = 2 * half + 1
    return max(0.0, (rng.uniform(size / 2, size * 2) - 1) / 2)
