"""Builds DNA and weights from a simplified graph.

A value is `open` until a vertex ends it: a convolution, its normalisation and its rectifier become one edge and one
vertex. A value that several nodes use gets a vertex at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from msgspec.structs import replace
from torch import Tensor

from genepool.dna import DNA, INPUT, OUTPUT, Shape
from genepool.errors import DataError
from genepool.export.foreign.classifier import Classifier, split_classifier
from genepool.export.foreign.editor import Editor
from genepool.export.foreign.graph import Node
from genepool.export.foreign.windows import conv_window, embedded, pool_fields
from genepool.layers import (
    EPSILON,
    SKIP_PRECEDENCE,
    Affine,
    AveragePool,
    BatchNorm,
    BatchNormGelu,
    BatchNormHardSwish,
    BatchNormRelu,
    BatchNormRelu6,
    BatchNormSilu,
    Conv,
    DepthwiseConv,
    Edge,
    Gelu,
    GroupedConv,
    HardSwish,
    Identity,
    Linear,
    MaxPool,
    Relu,
    Relu6,
    Silu,
    SqueezeExcitation,
    Vertex,
)

LEARNING_RATE = 0.1
MAX_GROWN = 2**29  # zeros in larger filters
ACTIVATIONS: dict[str, tuple[type[Vertex], type[Vertex]]] = {
    "relu": (Relu, BatchNormRelu), "relu6": (Relu6, BatchNormRelu6), "silu": (Silu, BatchNormSilu),
    "gelu": (Gelu, BatchNormGelu), "hard_swish": (HardSwish, BatchNormHardSwish),
}  # fmt: skip
"""Each function alone and after batch normalisation."""
REASONS = {
    "cat": "concatenates values, but vertices of a DNA only add them",
    "mul": "multiplies two values of the images, which no layer of Genepool does",
    "transpose": "exchanges axes, but images in Genepool stay channels first",
    "fit": "changes sizes other than in a sum, which no layer of Genepool does",
    "linear": "works on something else than channels",
}


class Term(NamedTuple):
    """An edge whose end is not known yet."""

    source: str
    kind: type[Edge] = Identity
    fields: dict[str, Any] = {}  # noqa: RUF012 - never changed
    tensors: dict[str, Tensor] = {}  # noqa: RUF012
    is_fitted: bool = False
    """Whether its value has another size than its vertex."""


class Head(NamedTuple):
    """What the vertex at the end computes."""

    kind: type[Vertex]
    fields: dict[str, Any]
    tensors: dict[str, Tensor]


class Open(NamedTuple):
    """A value without a vertex."""

    terms: tuple[Term, ...]
    head: Head | None = None


class Translation(NamedTuple):
    dna: DNA
    tensors: dict[str, Tensor]
    classes: int


def translate(editor: Editor) -> Translation:
    classifier = split_classifier(editor)
    translator = _Translator(editor)
    for node in editor.nodes.values():
        translator.read(node)
    return translator.finish(classifier)


class _Translator:
    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.values: dict[str, Open | str] = {editor.input: INPUT.id}  # open, or a vertex
        self.vertices: list[Vertex] = [INPUT]
        self.edges: list[Edge] = []
        self.tensors: dict[str, Tensor] = {}
        self.grown = 0  # zeros added so far
        self.layers = {INPUT.id: 0}  # on the longest way to each vertex

    def read(self, node: Node) -> None:
        handler = getattr(self, f"_read_{node.operator}", None)
        if node.operator in ACTIVATIONS:
            handler = self._read_activation
        if handler is None:
            reason = REASONS.get(node.operator, "has an operator that Genepool has no layer for")
            raise DataError(f"{node.place} {reason}.")
        value = handler(node)
        is_shared = self.editor.uses[node.output] > 1 and isinstance(value, Open)
        self.values[node.output] = self.close(value, node) if is_shared else value

    def finish(self, classifier: Classifier) -> Translation:
        last = self._vertex(self.editor.output, None)
        trunk = Identity(id="trunk", from_vertex=last, to_vertex=OUTPUT.id)
        dna = DNA(learning_rate=LEARNING_RATE, vertices=(*self.vertices, OUTPUT), edges=(*self.edges, trunk))
        name = f"classifier_{OUTPUT.id}"
        tensors = {**self.tensors, f"{name}.weight": classifier.weight, f"{name}.bias": classifier.bias}
        plain = {key: tensor.detach().float().contiguous() for key, tensor in tensors.items()}
        return Translation(dna, plain, len(classifier.bias))

    # Vertices

    def shape(self, name: str, node: Node | None = None) -> Shape:
        sizes = self.editor.shapes[name]
        if len(sizes) == 2:
            return Shape(1, 1, sizes[1])
        if len(sizes) != 4:
            place = node.place if node is not None else "its output"
            raise DataError(f"{place} works on something else than images and their channels.")
        return Shape(sizes[2], sizes[3], sizes[1])

    def _vertex(self, name: str, node: Node | None) -> str:
        """The vertex of a value, which is made now if there is none."""
        value = self.values[name]
        if isinstance(value, str):
            return value
        self.values[name] = vertex = self.close(value, node)
        return vertex

    def _opened(self, name: str, node: Node) -> Open:
        value = self.values[name]
        return value if isinstance(value, Open) else Open((Term(value),))

    def close(self, value: Open, node: Node | None) -> str:
        """End a value with a vertex and return its ID."""
        if value.head is None and len(value.terms) == 1 and value.terms[0] == Term(value.terms[0].source):
            return value.terms[0].source
        primary = max(value.terms, key=self._rank)
        if primary.is_fitted:
            place = node.place if node is not None else "the last node"
            raise DataError(f"{place} changes sizes other than in a sum, which no layer of Genepool does.")
        head = value.head if value.head is not None else Head(Linear, {}, {})
        number = len(self.vertices)
        vertex = head.kind(id=f"v{number}", **head.fields)
        seen: set[str] = set()
        terms = [self._apart(term, seen) for term in value.terms]
        main = value.terms.index(primary)
        for order, term in enumerate(terms):
            self._add_edge(term, vertex.id, f"e{number}" + (f"-{order}" if len(terms) > 1 else ""), order == main)
        self.vertices.append(vertex)
        self.tensors.update((f"{vertex.module_name}.{name}", tensor) for name, tensor in head.tensors.items())
        self.layers[vertex.id] = max(self._rank(term)[1] for term in terms)
        return vertex.id

    def _rank(self, term: Term) -> tuple[bool, int]:
        return not term.is_fitted, self.layers[term.source] + (term.kind is not Identity)

    def _apart(self, term: Term, seen: set[str]) -> Term:
        """Only one edge may lead from one vertex to another: the second goes through a vertex of its own."""
        if term.source not in seen:
            seen.add(term.source)
            return term
        number = len(self.vertices) + len(self.edges)
        vertex = Linear(id=f"w{number}")
        self._add_edge(term, vertex.id, f"f{number}", True)
        self.vertices.append(vertex)
        self.layers[vertex.id] = self._rank(term)[1]
        return Term(vertex.id, is_fitted=term.is_fitted)

    def _add_edge(self, term: Term, target: str, name: str, is_primary: bool) -> None:
        edge = term.kind(id=name, from_vertex=term.source, to_vertex=target, **term.fields)
        if not is_primary:
            edge = replace(edge, depth_precedence=SKIP_PRECEDENCE, scale_precedence=SKIP_PRECEDENCE)
        self.edges.append(edge)
        self.tensors.update((f"{edge.module_name}.{part}", tensor) for part, tensor in term.tensors.items())

    # Nodes

    def _weights(self, node: Node) -> tuple[Tensor, Tensor | None]:
        return self.editor.constants[node.inputs[1]], self.editor.tensor(node.inputs[2])

    def _read_conv(self, node: Node) -> Open:
        weight, bias = self._weights(node)
        return self._convolution(node, weight, bias)

    def _read_linear(self, node: Node) -> Open:
        weight, bias = self._weights(node)
        source = self.shape(node.inputs[0], node)
        if (source.height, source.width) != (1, 1) or weight.shape[1] != source.channels:
            raise DataError(f"{node.place} {REASONS['linear']}.")
        fields = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
        return self._convolution(node._replace(fields=fields), weight[:, :, None, None], bias)

    def _convolution(self, node: Node, weight: Tensor, bias: Tensor | None) -> Open:
        source, result = self.shape(node.inputs[0], node), self.shape(node.output, node)
        window = conv_window(node, source[:2], result[:2], weight.shape[2:])
        height, width = map(float, window.halves)
        fields: dict[str, Any] = {"filter_half_height": height, "filter_half_width": width}
        fields["stride_scale"] = float(window.stride_scale)
        groups = node.fields["groups"]
        kind: type[Edge] = GroupedConv if groups > 1 or window.is_late else Conv
        if groups == source.channels == result.channels > 1:
            kind = DepthwiseConv
        else:
            fields["depth_factor"] = result.channels / source.channels
        if kind is GroupedConv:
            fields["groups"] = float(groups)
        if window.is_late:
            fields["late"] = True
        self.grown += weight.shape[0] * weight.shape[1] * window.area - weight.numel()
        if self.grown > MAX_GROWN:
            raise DataError(f"{node.place} would need filters with too many zeros for its padding or dilation.")
        filters = {"weight": embedded(weight, window, node.fields["dilations"])}
        term = Term(self._vertex(node.inputs[0], node), kind, fields, filters)
        if bias is None:
            return Open((term,))
        return Open((term,), Head(Affine, {}, {"weight": torch.ones_like(bias), "bias": bias}))

    def _read_max_pool(self, node: Node) -> Open:
        return self._pool(node, MaxPool)

    def _read_average_pool(self, node: Node) -> Open:
        if not node.fields["include_pad"] or not any(node.fields["pads"]):
            source, result = self.shape(node.inputs[0]), self.shape(node.output)
            if pool_fields(node, source[:2], result[:2]) is not None:
                return self._pool(node, AveragePool)
            if any(node.fields["pads"]):
                raise DataError(f"{node.place} has windows or padding that no pool of Genepool has.")
        # With zeros that count, it is a convolution of each channel.
        channels, kernel = self.shape(node.output).channels, node.fields["kernel"]
        weight = torch.full((channels, 1, *kernel), 1 / (kernel[0] * kernel[1]), dtype=torch.float64)
        fields = dict(node.fields) | {"dilations": (1, 1), "groups": channels}
        return self._convolution(node._replace(fields=fields), weight, None)

    def _pool(self, node: Node, kind: type[Edge]) -> Open:
        source, result = self.shape(node.inputs[0], node), self.shape(node.output, node)
        if (fields := pool_fields(node, source[:2], result[:2])) is None:
            raise DataError(f"{node.place} has windows or padding that no pool of Genepool has.")
        return Open((Term(self._vertex(node.inputs[0], node), kind, dict(fields)),))

    def _read_global_pool(self, node: Node) -> Open:
        """A pool whose first window contains all pixels."""
        source = self.shape(node.inputs[0], node)
        pixels = max(source.height, source.width)
        vertex = self._vertex(node.inputs[0], node)
        if pixels == 1:
            return Open((Term(vertex),))
        fields = {"size": 2.0 * pixels - 1, "stride_scale": float((pixels - 1).bit_length())}
        return Open((Term(vertex, AveragePool, fields),))

    def _read_batch_norm(self, node: Node) -> Open:
        """Genepool's epsilon is fixed: the weight makes up for another one, so that the statistics remain."""
        weight, bias, mean, variance = (self.editor.constants[name].double() for name in node.inputs[1:])
        if not bool((variance + node.fields["epsilon"] > 0).all()) or bool((variance < 0).any()):
            raise DataError(f"{node.place} has variances that are not positive.")
        weight = weight * torch.sqrt((variance + EPSILON) / (variance + node.fields["epsilon"]))
        tensors = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": variance}
        return self._headed(node, Head(BatchNorm, {}, tensors))

    def _headed(self, node: Node, head: Head) -> Open:
        """A function of a value, in the value's own vertex if that has none yet."""
        value = self._opened(node.inputs[0], node)
        if value.head is not None:
            value = Open((Term(self._vertex(node.inputs[0], node)),))
        return Open(value.terms, head)

    def _read_activation(self, node: Node) -> Open:
        alone, normalised = ACTIVATIONS[node.operator]
        return self._rectified(node, normalised, {}) or self._headed(node, Head(alone, {}, {}))

    def _rectified(self, node: Node, kind: type[Vertex], fields: dict[str, Any]) -> Open | None:
        value = self.values[node.inputs[0]]
        if not isinstance(value, Open) or value.head is None or value.head.kind is not BatchNorm:
            return None
        return Open(value.terms, Head(kind, fields, value.head.tensors))

    def _read_leaky_relu(self, node: Node) -> Open:
        value = self._rectified(node, BatchNormRelu, {"leakiness": node.fields["slope"]})
        assert value is not None, "others were decomposed"
        return value

    def _read_affine(self, node: Node) -> Open:
        weight, bias = (self.editor.constants[name] for name in node.inputs[1:])
        return self._headed(node, Head(Affine, {}, {"weight": weight, "bias": bias}))

    def _read_squeeze_excitation(self, node: Node) -> Open:
        names = ("reduce_weight", "reduce_bias", "expand_weight", "expand_bias")
        tensors = {part: self.editor.constants[name] for part, name in zip(names, node.inputs[1:], strict=True)}
        squeezed, channels = tensors["reduce_weight"].shape
        if squeezed > channels:
            raise DataError(f"{node.place} has more channels inside a squeeze-and-excitation than outside.")
        fields = {"reduction": channels / squeezed, **node.fields}
        return self._headed(node, Head(SqueezeExcitation, fields, tensors))

    def _read_add(self, node: Node) -> Open:
        shapes = [self.shape(name, node) for name in (*node.inputs, node.output)]
        if shapes[0] != shapes[2] or shapes[1] != shapes[2]:
            raise DataError(f"{node.place} adds values of different shapes, {shapes[0]} and {shapes[1]}.")
        terms: list[Term] = []
        for name in node.inputs:
            value = self.values[name]
            is_open = isinstance(value, Open) and value.head is None
            terms += value.terms if is_open and isinstance(value, Open) else [Term(self._vertex(name, node))]
        return Open(tuple(terms))

    def _read_fit(self, node: Node) -> Open:
        value = self._opened(node.inputs[0], node)
        if value.head is not None or len(value.terms) > 1:
            value = Open((Term(self._vertex(node.inputs[0], node)),))
        return Open((value.terms[0]._replace(is_fitted=True),))
