"""Mutations that make networks smaller where little is lost, and a function that brings a network under a limit.

Differs from the paper, which removes convolutions and skips at random. A DNA has no weights, so these mutations choose
at random where to prune; which channels of a narrower layer remain is decided by the weights when a child inherits
(nn/pruning.py). They take part only if the odds name them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from genepool.dna import DNA, Capacity, Shape, Shapes, capacity, fitting_image, shapes, tied, with_widths
from genepool.errors import ModelTooLargeError, MutationError
from genepool.layers import Conv, Edge, Identity, Linear
from genepool.mutations.base import MUTATIONS
from genepool.mutations.paper import removable, without

NARROWEST = 0.5  # the smallest part of the channels that one mutation leaves
STEPS = 16  # `pruned_to` takes a sixteenth of a layer's channels at a time


def sizes_of(dna: DNA, image: Shape | None = None) -> Shapes:
    """Return the shapes of a network for images that fit it; a mutation cannot act on one without."""
    try:
        return shapes(dna, image or fitting_image(dna))
    except ModelTooLargeError as error:
        raise MutationError(f"the network has no shapes: {error}") from error


class Group(NamedTuple):
    """Layers that make the same channels, and so become narrower together."""

    makers: tuple[Edge, ...]
    blocks: int
    """The number that their channels must be a multiple of."""

    def widths(self, sizes: Shapes, part: float) -> dict[str, int]:
        """Return the numbers of channels that leave this part, at least one block of each."""
        found = {}
        for edge in self.makers:
            before = sizes.edges[edge.id].channels
            blocks = int(before * part / self.blocks + 1e-9)  # fewer even if little is lost
            found[edge.id] = min(before, max(1, blocks) * self.blocks)
        return found

    def can_shrink(self, sizes: Shapes) -> bool:
        return any(sizes.edges[edge.id].channels > self.blocks for edge in self.makers)


def groups_of(dna: DNA, sizes: Shapes) -> list[Group]:
    """Return the groups that mutations may make narrower, in the order of their first layers."""
    found = []
    for names in map(set, tied(dna)):
        makers = tuple(edge for edge in dna.edges if edge.id in names and edge.sets_depth)
        readers = [edge for edge in dna.edges if edge.from_vertex in names and edge.sets_depth]
        if makers and all(dna.is_mutable(edge) for edge in (*makers, *readers)):
            counts = [edge.group_count(sizes.vertices[edge.from_vertex].channels) for edge in (*makers, *readers)]
            found.append(Group(makers, max(counts)))
    return sorted(found, key=lambda group: dna.order.index(group.makers[0].to_vertex))


@MUTATIONS.register("prune-channels")
def prune_channels(dna: DNA, rng: Random) -> DNA:
    """Remove up to half of the channels of a random layer and of those that share its channels; others keep their
    width."""
    sizes = sizes_of(dna)
    groups = [group for group in groups_of(dna, sizes) if group.can_shrink(sizes)]
    if not groups:
        raise MutationError("there is no layer to make narrower.")
    part = rng.uniform(NARROWEST, 1.0)
    return with_widths(dna, fitting_image(dna), rng.choice(groups).widths(sizes, part))


@MUTATIONS.register("prune-layer")
def prune_layer(dna: DNA, rng: Random) -> DNA:
    """Remove a random part of the network that passes its input on or adds to it, so that no shape changes: the layers
    beside a skip, or a single layer of as many channels and pixels as its input."""
    sizes = sizes_of(dna)
    children = [child for skip in dna.skips if (child := without_branch(dna, skip)) is not None]
    same = [edge for edge in dna.backbone if sizes.vertices[edge.from_vertex] == sizes.vertices[edge.to_vertex]]
    children += [without(dna, edge) for edge in same if not _is_plain(dna, edge) and removable(dna, edge)]
    alike = [child for child in children if _keeps_shapes(child, sizes)]
    if not alike:
        raise MutationError("there is no layer whose removal keeps the shapes.")
    return rng.choice(alike)


def _is_plain(dna: DNA, edge: Edge) -> bool:
    return isinstance(edge, Identity) and isinstance(dna.vertex[edge.to_vertex], Linear)


def _keeps_shapes(child: DNA, before: Shapes) -> bool:
    after = sizes_of(child).vertices
    return all(after[name] == before.vertices[name] for name in after)


def without_branch(dna: DNA, skip: Edge) -> DNA | None:
    """Remove the part of the backbone beside a skip, which takes its place; None if other layers need that part."""
    places = {vertex: place for place, vertex in enumerate(dna.backbone_vertices)}
    start, end = places[skip.from_vertex], places[skip.to_vertex]
    inner = set(dna.backbone_vertices[start + 1 : end])
    lost = [edge for edge in dna.edges if inner & set(edge.arc)]
    around = inner | set(skip.arc)
    if not all(set(edge.arc) <= around and dna.is_mutable(edge) for edge in lost):
        return None
    if not inner or not all(dna.vertex[name].properties_mutable for name in inner):
        return None
    last = dna.backbone[end - 1]
    kept = replace(skip, depth_precedence=last.depth_precedence, scale_precedence=last.scale_precedence)
    return dna.edited(put=[kept], drop=[*inner, *(edge.id for edge in lost)])


@MUTATIONS.register("remove-layer")
def remove_layer(dna: DNA, rng: Random) -> DNA:
    """Remove a random layer of the backbone that `remove-convolution` does not know: an edge of another kind, or a
    one-to-one connection, with the vertex that it leads to."""
    candidates = [
        edge for edge in dna.backbone if type(edge) is not Conv and not _is_plain(dna, edge) and removable(dna, edge)
    ]
    if not candidates:
        raise MutationError("there is no layer to remove besides convolutions.")
    return without(dna, rng.choice(candidates))


def pruned_to(dna: DNA, image: Shape, classes: int, limit: Capacity, rng: Random) -> DNA:
    """Return the network with all layers made narrower by nearly the same part, as little as the limit allows; layers
    that share channels share their widths. `sys.maxsize` is no limit. The order in which layers lose channels is
    random. MutationError says so if even the narrowest network is over the limit.
    """
    sizes = sizes_of(dna, image)
    groups = groups_of(dna, sizes)
    rng.shuffle(groups)

    def after(steps: int) -> DNA:
        return with_widths(dna, image, _widths_after(steps, groups, sizes))

    def fits(steps: int) -> bool:
        found = capacity(after(steps), image, classes)
        return found.parameters <= limit.parameters and found.flops <= limit.flops

    low, high = 0, STEPS * len(groups)
    if not fits(high):
        raise MutationError(f"even with the fewest channels the network has more than {_in_words(limit)}.")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return after(high)


def _widths_after(steps: int, groups: Sequence[Group], sizes: Shapes) -> Mapping[str, int]:
    rounds, rest = divmod(steps, len(groups)) if groups else (0, 0)
    widths: dict[str, int] = {}
    for place, group in enumerate(groups):
        widths |= group.widths(sizes, 1.0 - (rounds + (place < rest)) / STEPS)
    return widths


def _in_words(limit: Capacity) -> str:
    parts = {"parameters": limit.parameters, "FLOPs per image": limit.flops}
    return " or ".join(f"{number:,} {what}" for what, number in parts.items() if number < sys.maxsize)
