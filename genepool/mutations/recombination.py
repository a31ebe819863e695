"""Children of two parents: the three forms that the paper tried ("Recombination").

Mixed weights find their place in nn/inheritance.py. Here are the others. First, odds of mutations that evolve in the
DNA, so that a child can have its structure from one parent and its odds from another.

Second, two architectures fused side by side. This DNA has no concatenation, only sums. So each parent's last activation
goes through a 1x1 convolution of its own into a common output that has room for both; with the identity in these
convolutions, one above the other, their sum is the concatenation. The classifier on it, half of each parent's, gives
the mean of the parents' scores.

Differs from the paper: it tells no more than that the architectures were fused side by side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from random import Random

from msgspec.structs import replace

from genepool.dna import BACKBONE_PRECEDENCE, DNA, SKIP_PRECEDENCE, Conv, Shape, Vertex, shapes
from genepool.errors import InvalidDNAError, MutationError

MIXTURE, FUSION, ADOPTION = "recombine-weights", "fuse", "recombine-probabilities"
"""As they stand among the mutations of a birth record, always first."""
DRIFT_BOUNDS = (1e-3, 1e3)
"""No mutation dies out, and none is left alone."""


def own_odds(dna: DNA, base: Mapping[str, float]) -> dict[str, float]:
    """The odds that a DNA carries, of the mutations that are allowed at all; where it carries none, those."""
    carried = dict(dna.odds)
    return {name: carried.get(name, odds) for name, odds in base.items() if odds > 0}


def drifted(dna: DNA, odds: Mapping[str, float], rng: Random) -> DNA:
    """The DNA with these odds, one of them changed as the paper changes learning rates: by up to a factor of two."""
    name = rng.choice(sorted(odds))
    low, high = DRIFT_BOUNDS
    changed = {**odds, name: min(high, max(low, odds[name] * 2 ** rng.uniform(-1.0, 1.0)))}
    return replace(dna, odds=tuple(changed.items()))


def fuse(one: DNA, other: DNA, image: Shape, rng: Random) -> DNA:
    """Both networks on the same images, side by side. The first's IDs stay; the other's are told by `beside`.

    The larger of the two last activations decides the size: what is repeated to fit keeps its mean, if the sizes are
    multiples.
    """
    if any(dna.vertex[dna.input].type != "linear" for dna in (one, other)):
        raise MutationError("networks whose input is normalised cannot share it.")
    left, right = (shapes(dna, image).vertices[dna.output] for dna in (one, other))
    taken = {*one.vertex, *one.edge}
    output, first, second = (_new_id(taken, rng) for _ in range(3))
    names = {name: beside(second, name) for name in (*other.vertex, *other.edge)} | {other.input: one.input}
    moved = other.renamed(names)
    first_is_larger = left.height * left.width >= right.height * right.width
    joints = (
        _joint(first, one.output, output, left, right, depth=BACKBONE_PRECEDENCE, scale=int(first_is_larger)),
        _joint(second, moved.output, output, right, left, depth=SKIP_PRECEDENCE, scale=int(not first_is_larger)),
    )
    last = replace(one.vertex[one.output], id=output, type="linear", leakiness=0.0)
    inner = [_opened(dna.vertex[dna.output]) for dna in (one, moved)]
    beside_it = [vertex for vertex in moved.vertices if vertex.id not in (moved.output, one.input)]
    try:
        return one.edited(put=[*beside_it, *inner, last, *moved.edges, *joints])
    except InvalidDNAError as error:
        raise MutationError(f"the two cannot be fused: {error}") from error


def joints(dna: DNA) -> tuple[Conv, Conv]:
    """The convolutions of a fused DNA that bring both parents to the output, the first parent's first."""
    first, second = sorted(dna.edges_in[dna.output], key=lambda edge: -edge.depth_precedence)
    assert isinstance(first, Conv)
    assert isinstance(second, Conv)
    return first, second


def beside(joint: str, name: str) -> str:
    """What an ID of the second parent is called in the child: parents with common ancestors have IDs in common."""
    return hashlib.sha256(f"{joint} {name}".encode()).hexdigest()[:15]


def _joint(name: str, source: str, target: str, own: Shape, others: Shape, *, depth: int, scale: int) -> Conv:
    return Conv(
        id=name,
        from_vertex=source,
        to_vertex=target,
        depth_precedence=depth,
        scale_precedence=scale,
        depth_factor=(own.channels + others.channels) / own.channels,
        filter_half_width=0.0,
        filter_half_height=0.0,
    )


def _opened(vertex: Vertex) -> Vertex:
    """What was an output, as a vertex among others."""
    return replace(vertex, outputs_mutable=True, properties_mutable=True)


def _new_id(taken: set[str], rng: Random) -> str:
    while (name := f"{rng.getrandbits(60):015x}") in taken:
        pass
    taken.add(name)
    return name
