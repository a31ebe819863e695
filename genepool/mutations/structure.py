"""Mutations that insert and remove layers and skip connections.

Mutations that make the backbone longer or shorter by one edge and the vertex behind it.

Mutations of the skip connections between vertices of the backbone.
"""

from __future__ import annotations

from random import Random
from typing import Literal

from msgspec.structs import replace

from genepool.dna import DNA, SKIP_PRECEDENCE, Conv, Identity, Vertex
from genepool.dna.topology import reachable
from genepool.errors import MutationError
from genepool.mutations.base import MUTATIONS, new_id


def _split(dna: DNA, rng: Random) -> tuple[Conv | Identity, Vertex]:
    """A random edge u -> v of the backbone, and a new vertex w to put in its way.

    The caller leads a new edge from u to w; the old one then goes from w to v and keeps its ID, and so its weights.
    """
    candidates = [edge for edge in dna.backbone if dna.is_mutable(edge)]
    if not candidates:
        raise MutationError("no edge of the backbone may be split.")
    kind: Literal["linear", "bn_relu"] = "bn_relu" if rng.random() < 0.5 else "linear"
    return rng.choice(candidates), Vertex(id=new_id(dna, rng), type=kind)


@MUTATIONS.register("insert-convolution")
class InsertConvolution:
    """3x3, stride 1 or 2, as many channels as come in, with or without batch normalisation and rectifier."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        old, vertex = _split(dna, rng)
        stride_scale = rng.choice((0.0, 1.0))
        new = Conv(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id, stride_scale=stride_scale)
        return dna.edited(put=[vertex, new, replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("insert-one-to-one")
class InsertOneToOne:
    """A one-to-one connection, with or without batch normalisation and rectifier behind it."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        old, vertex = _split(dna, rng)
        new = Identity(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=vertex.id)
        return dna.edited(put=[vertex, new, replace(old, from_vertex=vertex.id)])


@MUTATIONS.register("remove-convolution")
class RemoveConvolution:
    """Takes a convolution of the backbone out, with the vertex that it leads to."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        candidates = [edge for edge in dna.backbone if isinstance(edge, Conv) and _removable(dna, edge)]
        if not candidates:
            raise MutationError("there is no convolution to remove.")
        conv = rng.choice(candidates)
        kept = _contracted(dna, conv)
        lost = {edge.id for edge in dna.edges} - {edge.id for edge in kept}
        return dna.edited(put=kept, drop=[conv.to_vertex, *lost])


def _removable(dna: DNA, conv: Conv) -> bool:
    """The classifier stays, and so does what mutations may not touch: the lost vertex, its edges, where these go."""
    vertex = dna.vertex[conv.to_vertex]
    moved_in = [edge for edge in dna.edges_in[vertex.id] if edge.id != conv.id]
    return (
        vertex.id != dna.output
        and vertex.properties_mutable
        and all(dna.is_mutable(edge) for edge in dna.edges if vertex.id in edge.arc)
        and (not moved_in or dna.vertex[conv.from_vertex].inputs_mutable)
    )


def _contracted(dna: DNA, conv: Conv) -> list[Conv | Identity]:
    """All other edges, with those that touched the lost vertex moved to where the convolution began.

    A skip that now repeats an edge, or runs in a loop, is left out; the backbone goes first, so it is never left out.
    """
    backbone = {edge.id for edge in dna.backbone}
    kept: dict[tuple[str, str], Conv | Identity] = {}
    for edge in sorted(dna.edges, key=lambda edge: edge.id not in backbone):
        source, target = (conv.from_vertex if end == conv.to_vertex else end for end in edge.arc)
        if source != target and (source, target) not in kept:
            kept[source, target] = replace(edge, from_vertex=source, to_vertex=target)
    return list(kept.values())


@MUTATIONS.register("add-skip")
class AddSkip:
    """A one-to-one connection between two vertices of the backbone that are not joined yet, never backwards."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        source, target = self._draw(dna, rng)
        skip = Identity(
            id=new_id(dna, rng),
            from_vertex=source,
            to_vertex=target,
            depth_precedence=SKIP_PRECEDENCE,
            scale_precedence=SKIP_PRECEDENCE,
        )
        return dna.edited(put=[skip])

    @staticmethod
    def _draw(dna: DNA, rng: Random) -> tuple[str, str]:
        """As in the paper's listing: a random end first, then a random beginning that it does not lead to."""
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
        raise MutationError("every two vertices of the backbone are joined already.")


@MUTATIONS.register("remove-skip")
class RemoveSkip:
    """Removes a random skip."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        candidates = [skip for skip in dna.skips if dna.is_mutable(skip)]
        if not candidates:
            raise MutationError("there is no skip to remove.")
        return dna.edited(drop=[rng.choice(candidates).id])
