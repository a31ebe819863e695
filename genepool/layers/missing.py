"""Layers of a kind that this process lacks, or that its version of a plugin gives other fields. They keep what the DNA
says of them, so that networks with them can be listed, checked and written again; their shapes and weights are unknown,
so they cannot be computed or changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from genepool.errors import MissingLayerError, SettingsError, shown
from genepool.layers.base import LAYERS, Edge, Layer, Vertex
from genepool.layers.flops import Shape
from genepool.registry import nearest


class MissingEdge(Edge, frozen=True, kw_only=True, tag="missing"):
    """An edge of an unknown kind."""

    kind: str
    fields: str
    """Everything that the DNA says of it, as JSON."""

    @property
    def type(self) -> str:
        return self.kind

    @property
    def symbol(self) -> str:
        return f"?{self.kind}"

    def result(self, source: Shape) -> Shape:
        raise missing_error([self.kind])


class MissingVertex(Vertex, frozen=True, kw_only=True, tag="missing"):
    """A vertex of an unknown kind."""

    kind: str
    fields: str

    @property
    def type(self) -> str:
        return self.kind

    @property
    def symbol(self) -> str:
        return f"?{self.kind}"

    def result(self, source: Shape) -> Shape:
        raise missing_error([self.kind])


def missing_error(kinds: Sequence[str]) -> MissingLayerError:
    """The error of a process that lacks these kinds, of which there is at least one."""
    return MissingLayerError(
        f"The network has a layer of the kind '{shown(kinds[0])}', which this process does not have"
        + (
            " with these fields: use the version of the plugin that it was made with."
            if kinds[0] in LAYERS.loaded
            else ": load the plugin that brings it with --plugin, or correct the name; "
            + nearest(kinds[0], LAYERS.names())
        ),
        tuple(kinds),
    )


_PLACEHOLDERS = frozenset({MissingEdge, MissingVertex})


def is_missing(layer: Layer) -> bool:
    return type(layer) in _PLACEHOLDERS


def missing_among(layers: Sequence[Layer]) -> tuple[str, ...]:
    """The kinds of those layers that are placeholders. Every birth asks twice, and hardly any network has one."""
    if _PLACEHOLDERS.isdisjoint(map(type, layers)):
        return ()
    return tuple(sorted({layer.type for layer in layers if is_missing(layer)}))


def is_convolution(kind: str) -> bool:
    """Whether edges of this kind are convolutions. Of a kind that this process lacks, only the name can say so."""
    if not _is_loaded(kind):
        return "conv" in kind
    return bool(getattr(LAYERS.get(kind), "IS_CONVOLUTION", False))


def with_placeholders(document: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded DNA in which layers of unknown kinds have become placeholders."""
    replaced = dict(document)
    for name, base in (("vertices", Vertex), ("edges", Edge)):
        layers = document.get(name)
        if isinstance(layers, list):
            replaced[name] = [_placeholder(layer, base) if _is_unknown(layer) else layer for layer in layers]
    return replaced


def _is_unknown(layer: Any) -> bool:
    if not isinstance(layer, dict) or not isinstance(layer.get("type"), str):
        return False
    return not _is_loaded(layer["type"]) or not _has_fields(LAYERS.get(layer["type"]), layer)


def _has_fields(kind: type[Layer], layer: dict[str, Any]) -> bool:
    """Whether a layer can be read as this kind. For a kind of Genepool's own, the answer is always yes: fields that it
    does not have are errors of the DNA."""
    if kind.__module__.startswith("genepool."):
        return True
    try:
        msgspec.convert(layer, type=kind)
    except msgspec.ValidationError:
        return False
    return True


def _is_loaded(kind: str) -> bool:
    """Whether the kind can be used now, after an attempt to load the installed package that offers it."""
    try:
        return kind in LAYERS.loaded or (kind in LAYERS and LAYERS.get(kind) is not None)
    except SettingsError:  # the package is broken
        return False


def _placeholder(layer: dict[str, Any], base: type[Layer]) -> dict[str, Any]:
    own = {name: layer[name] for name in base.__struct_fields__ if name in layer}
    return {**own, "type": "missing", "kind": layer["type"], "fields": msgspec.json.encode(layer).decode()}


def written(layer: Layer) -> Layer | dict[str, Any]:
    """The form in which a layer is encoded: a placeholder becomes what it stands for."""
    if not isinstance(layer, MissingEdge | MissingVertex):
        return layer
    base = Edge if isinstance(layer, MissingEdge) else Vertex
    known: dict[str, Any] = msgspec.json.decode(layer.fields)
    return {**known, **{name: getattr(layer, name) for name in base.__struct_fields__ if name in known}}
