"""The paper's eleven mutations.

Numbers are drawn uniformly between half and twice the old value (the paper's "Encoding and Mutations"); strides and
learning rates uniformly in log2, since strides are powers of two.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from genepool.dna import DNA, reachable
from genepool.errors import MutationError
from genepool.layers import SKIP_PRECEDENCE, BatchNormRelu, Conv, Edge, Identity, Linear, Vertex
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


def split(dna: DNA, rng: Random) -> tuple[Edge, Vertex]:
    """Draw a backbone edge u -> v and make the new vertex w that splits it. The caller adds an edge u -> w; the old
    edge becomes w -> v and keeps its ID and thus its weights.
    """
    candidates = [edge for edge in dna.backbone if dna.is_mutable(edge)]
    if not candidates:
        raise MutationError("no edge of the backbone may be split.")
    kind: type[Vertex] = BatchNormRelu if rng.random() < 0.5 else Linear
    return rng.choice(candidates), kind(id=new_id(dna, rng))


@MUTATIONS.register("insert-convolution")
def insert_convolution(dna: DNA, rng: Random) -> DNA:
    """Insert a 3x3 convolution: stride 1 or 2, channels unchanged, followed by BN+ReLU or nothing."""
    old, vertex = split(dna, rng)
    stride_scale = rng.choice((0.0, 1.0))
    new = Conv(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id, stride_scale=stride_scale)
    return dna.edited(put=[vertex, new, replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("insert-one-to-one")
def insert_one_to_one(dna: DNA, rng: Random) -> DNA:
    """Insert a one-to-one connection, followed by BN+ReLU or nothing."""
    old, vertex = split(dna, rng)
    new = Identity(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id)
    return dna.edited(put=[vertex, new, replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("remove-convolution")
def remove_convolution(dna: DNA, rng: Random) -> DNA:
    """Remove a backbone convolution and the vertex that it leads to."""
    candidates = [edge for edge in dna.backbone if isinstance(edge, Conv) and removable(dna, edge)]
    if not candidates:
        raise MutationError("there is no convolution to remove.")
    return without(dna, rng.choice(candidates))


def without(dna: DNA, conv: Edge) -> DNA:
    """Remove an edge of the backbone and the vertex that it leads to."""
    kept = contracted(dna, conv)
    lost = {edge.id for edge in dna.edges} - {edge.id for edge in kept}
    return dna.edited(put=kept, drop=[conv.to_vertex, *lost])


def removable(dna: DNA, conv: Edge) -> bool:
    """Return whether removing it keeps the classifier and everything that mutations may not touch."""
    vertex = dna.vertex[conv.to_vertex]
    moved_in = [edge for edge in dna.edges_in[vertex.id] if edge.id != conv.id]
    return (
        vertex.id != dna.output
        and vertex.properties_mutable
        and all(dna.is_mutable(edge) for edge in dna.edges if vertex.id in edge.arc)
        and (not moved_in or dna.vertex[conv.from_vertex].inputs_mutable)
    )


def contracted(dna: DNA, conv: Edge) -> list[Edge]:
    """Return all other edges; those at the lost vertex now start or end where the convolution started. A skip that
    becomes a duplicate or a loop is dropped. The backbone comes first, so it is never dropped.
    """
    backbone = {edge.id for edge in dna.backbone}
    kept: dict[tuple[str, str], Edge] = {}
    for edge in sorted(dna.edges, key=lambda edge: edge.id not in backbone):
        source, target = (conv.from_vertex if end == conv.to_vertex else end for end in edge.arc)
        if source != target and (source, target) not in kept:
            kept[source, target] = replace(edge, from_vertex=source, to_vertex=target)
    return list(kept.values())


@MUTATIONS.register("add-skip")
def add_skip(dna: DNA, rng: Random) -> DNA:
    """Add a forward one-to-one connection between two backbone vertices that have no edge between them."""
    source, target = unconnected(dna, rng)
    skip = Identity(id=new_id(dna, rng), from_vertex=source, to_vertex=target)
    return dna.edited(put=[replace(skip, depth_precedence=SKIP_PRECEDENCE, scale_precedence=SKIP_PRECEDENCE)])


def unconnected(dna: DNA, rng: Random) -> tuple[str, str]:
    """Draw a target, then a source that the target does not lead to, as in the paper's listing."""
    sources = [vertex for vertex in dna.backbone_vertices if dna.vertex[vertex].outputs_mutable]
    targets = [vertex for vertex in dna.backbone_vertices if dna.vertex[vertex].inputs_mutable]
    rng.shuffle(sources)
    rng.shuffle(targets)
    joined = set(dna.arcs)
    for target in targets:
        behind = reachable(target, dna.arcs)
        for source in sources:
            if source not in behind and (source, target) not in joined:
                return source, target
    raise MutationError("all pairs of backbone vertices are connected already.")


@MUTATIONS.register("remove-skip")
def remove_skip(dna: DNA, rng: Random) -> DNA:
    """Remove a random skip."""
    candidates = [skip for skip in dna.skips if dna.is_mutable(skip)]
    if not candidates:
        raise MutationError("there is no skip to remove.")
    return dna.edited(drop=[rng.choice(candidates).id])
