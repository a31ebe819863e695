"""The kind `identity`: a one-to-one connection."""

from __future__ import annotations

from genepool.layers.base import LAYERS, Edge
from genepool.layers.flops import Item, Shape


@LAYERS.register("identity")
class Identity(Edge, frozen=True, kw_only=True, tag="identity", gc=False):
    """Passes its input on."""

    def is_usual(self) -> bool:
        return type(self) is Identity or super().is_usual()

    def requirements(self, source: Shape, batch: int, input_gradient: bool) -> Item:
        return Item()
