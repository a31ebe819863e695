"""The kind `linear`: a vertex that only adds its inputs."""

from __future__ import annotations

from genepool.layers.base import LAYERS, Vertex


@LAYERS.register("linear")
class Linear(Vertex, frozen=True, kw_only=True, tag="linear", gc=False):
    """The sum of the incoming edges."""

    def is_usual(self) -> bool:
        return type(self) is Linear or super().is_usual()
