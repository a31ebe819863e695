"""How large a network is, whatever its training, and the largest that is wanted."""

from __future__ import annotations

from typing import NamedTuple

from genepool.dna.cost import cost
from genepool.dna.graph import DNA
from genepool.dna.shapes import Shape


class Size(NamedTuple):
    """Of a network for images of one shape."""

    parameters: int
    flops: int
    """Of one image, forward."""


def size(dna: DNA, image: Shape, classes: int) -> Size:
    """The size of a network: exact, since a batch of several images shares some of its operations."""
    one = cost(dna, image, classes, batch=1)
    return Size(one.parameters, one.forward.total)


class Largest(NamedTuple):
    """The limits of a search; the search space itself has none."""

    parameters: int
    flops: float = 0.0
    """Of one image, forward; 0: any number."""

    def fault(self, of: Size) -> str | None:
        """Why a network of that size is too large, or None."""
        if of.parameters > self.parameters:
            return f"{of.parameters:,} parameters are over the limit of {self.parameters:,}; raise max_parameters."
        if self.flops and of.flops > self.flops:
            return f"{of.flops:,} FLOPs an image are over the limit of {self.flops:,.0f}; raise max_flops."
        return None
