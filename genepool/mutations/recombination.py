"""Children of two parents: the three forms that the paper tried ("Recombination"); nn/inheritance.py mixes weights.

Two architectures are fused by a 1x1 convolution from each parent's last activation into a common output. If these hold
the identity, one in the upper and one in the lower channels, their sum is the concatenation.

Differs from the paper: it says only that architectures were fused side by side, not how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from random import Random

from msgspec.structs import replace

from genepool.dna import DNA, Shape, shapes
from genepool.errors import InvalidDNAError, MutationError
from genepool.layers import BACKBONE_PRECEDENCE, SKIP_PRECEDENCE, Conv, Linear
from genepool.mutations.base import new_id

MIXTURE, FUSION, ADOPTION = "recombine-weights", "fuse", "recombine-probabilities"
"""Their names among the mutations in a birth record, where they come first."""
DRIFT_BOUNDS = (1e-3, 1e3)  # odds stay in these bounds, so that no mutation dies out or displaces all others


def own_odds(dna: DNA, base: Mapping[str, float]) -> dict[str, float]:
    """Return the odds of the allowed mutations: those in the DNA, or else those in `base`."""
    carried = dict(dna.odds)
    return {name: carried.get(name, odds) for name, odds in base.items() if odds > 0}


def drifted(dna: DNA, odds: Mapping[str, float], rng: Random) -> DNA:
    """Return the DNA with these odds, one of them changed by up to a factor of two, as for learning rates."""
    name = rng.choice(sorted(odds))
    low, high = DRIFT_BOUNDS
    changed = {**odds, name: min(high, max(low, odds[name] * 2 ** rng.uniform(-1.0, 1.0)))}
    return replace(dna, odds=tuple(changed.items()))


def fuse(one: DNA, other: DNA, image: Shape, rng: Random) -> DNA:
    """Put both networks side by side on the same input. The first one keeps its IDs; `fused_id` gives the other's. The
    output takes the larger height and width of the two last activations: repeating the smaller one keeps its mean if
    the sizes are multiples.
    """
    if any(dna.vertex[dna.input].type != "linear" for dna in (one, other)):
        raise MutationError("networks whose input is normalised cannot share it.")
    left, right = (shapes(dna, image).vertices[dna.output] for dna in (one, other))
    output, first, second = (new_id(one, rng) for _ in range(3))
    names = {name: fused_id(second, name) for name in (*other.vertex, *other.edge)} | {other.input: one.input}
    moved = other.renamed(names)
    first_is_larger = left.height * left.width >= right.height * right.width
    joints = (
        _joint(first, one.output, output, left, right, depth=BACKBONE_PRECEDENCE, scale=int(first_is_larger)),
        _joint(second, moved.output, output, right, left, depth=SKIP_PRECEDENCE, scale=int(not first_is_larger)),
    )
    last = one.vertex[one.output]
    flags = {name: getattr(last, name) for name in ("inputs_mutable", "outputs_mutable", "properties_mutable")}
    last = Linear(id=output, **flags)
    inner = [replace(dna.vertex[dna.output], outputs_mutable=True, properties_mutable=True) for dna in (one, moved)]
    others = [vertex for vertex in moved.vertices if vertex.id not in (moved.output, one.input)]
    try:
        return one.edited(put=[*others, *inner, last, *moved.edges, *joints])
    except InvalidDNAError as error:
        raise MutationError(f"the two cannot be fused: {error}") from error


def joints(dna: DNA) -> tuple[Conv, Conv]:
    """Return the two convolutions of a fused DNA that lead to the output, the first parent's first."""
    first, second = sorted(dna.edges_in[dna.output], key=lambda edge: -edge.depth_precedence)
    assert isinstance(first, Conv) and isinstance(second, Conv)
    return first, second


def fused_id(joint: str, name: str) -> str:
    """Return the child's ID for an ID of the second parent, since parents with common ancestors share IDs."""
    return hashlib.sha256(f"{joint} {name}".encode()).hexdigest()[:15]


def _joint(name: str, source: str, target: str, own: Shape, others: Shape, *, depth: int, scale: int) -> Conv:
    new = Conv(id=name, from_vertex=source, to_vertex=target, depth_precedence=depth, scale_precedence=scale)
    factor = (own.channels + others.channels) / own.channels
    return replace(new, depth_factor=factor, filter_half_width=0.0, filter_half_height=0.0)
