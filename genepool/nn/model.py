"""The network of a DNA as a torch module (the paper's `Model`, supplement S1). Activations are channels-last.

Parameter names contain the DNA's IDs, because children inherit weights by name: `edge_<id>.weight`,
`vertex_<id>.weight`, `classifier_<id of the output>.bias`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from genepool.dna import DNA, Shape, Shapes, shapes
from genepool.layers import Layer, Normalisation, Operation, Vertex, blaming
from genepool.layers.tensors import Tensors, he_normal

CLASSIFIER = "classifier_"
"""The names of the classifier's tensors begin with it."""


class Classifier(nn.Module):
    """Global average pooling and one fully connected layer."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, channels))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        # Not a mean over two axes, because its gradient has stride 0, which slows down the gradient of the rectifier
        # before it: half of a shallow network's time on CPUs.
        pooled = x.permute(0, 2, 3, 1).flatten(1, 2).mean(1)  # (batch, channels)
        if not torch._C._is_any_autocast_enabled():
            return functional.linear(pooled, self.weight, self.bias)
        # Scores and their loss are always float32: that is free, and few bits decide between close scores.
        with torch.autocast(x.device.type, enabled=False):
            return functional.linear(pooled.float(), self.weight, self.bias)


def fit(x: Tensor, shape: Shape) -> Tensor:
    """Fit an edge's value to its vertex: zeroth-order interpolation in size, cut or zero-padded in channels."""
    missing = shape.channels - x.shape[1]
    if missing < 0:
        x = x[:, : shape.channels]
    if x.shape[2:] != (shape.height, shape.width):
        x = functional.interpolate(x, size=(shape.height, shape.width), mode="nearest")
    return functional.pad(x, (0, 0, 0, 0, 0, missing)) if missing > 0 else x


class _Summand(NamedTuple):
    """The value of one edge."""

    source: int
    operation: Operation | None
    fit_to: Shape | None
    """The vertex's shape, if the edge's value has another one."""


class _Step(NamedTuple):
    """The computation of one vertex. Vertices are numbered in topological order."""

    summands: list[_Summand]
    operation: Operation | None
    used_up: list[int]
    """Vertices that are not needed after this one, so that their memory can be freed."""


See = Callable[[Vertex, Tensor], None]


class Model(nn.Module):
    """A network: normalised images (batch, channels, height, width) in, class scores out."""

    def __init__(self, dna: DNA, image: Shape, classes: int, rng: torch.Generator) -> None:
        super().__init__()
        self.dna, self.image = dna, image
        with blaming(dna.layers):
            self._build(classes, rng)

    def _build(self, classes: int, rng: torch.Generator) -> None:
        dna, sizes = self.dna, shapes(self.dna, self.image)
        for edge in dna.edges:
            self._add(edge, sizes.vertices[edge.from_vertex])
        for vertex in dna.vertices:
            self._add(vertex, sizes.vertices[vertex.id])
        self.add_module(f"{CLASSIFIER}{dna.output}", Classifier(sizes.vertices[dna.output].channels, classes))
        _draw_weights(self, sizes, rng)
        # The bare function: calling the module looks for hooks, which the smallest networks notice.
        self._steps = (_steps(self, sizes), self.get_submodule(f"{CLASSIFIER}{dna.output}").forward)

    def _add(self, layer: Layer, source: Shape) -> None:
        if weights := layer.weights(source):
            self.add_module(layer.module_name, Tensors(weights))

    def tensors(self, layer: Layer) -> Tensors:
        """The tensors of an edge or vertex; an empty one if it has none."""
        found = self._modules.get(layer.module_name)
        return found if isinstance(found, Tensors) else Tensors({})

    def normalisations(self) -> dict[str, Tensors]:
        """The tensors of the vertices that normalise, by the vertices' IDs."""
        return {each.id: self.tensors(each) for each in self.dna.vertices if isinstance(each, Normalisation)}

    def forward(self, images: Tensor) -> Tensor:
        steps, classifier = self._steps
        return _run(steps, images, classifier)

    def for_validation(self) -> Operation:
        """Return the current network without gradients, with batch normalisation folded into filters if possible."""
        self.eval()
        unfolded, classifier = self._steps
        with torch.no_grad():
            steps = [_folded(self, vertex, step) for vertex, step in zip(self.dna.order, unfolded, strict=True)]
        return torch.inference_mode()(lambda images: _run(steps, images, classifier))

    def run_with_hook(self, images: Tensor, hook: Callable[[Normalisation, Tensors, Tensor], None]) -> None:
        """Call the hook with each vertex that normalises, its tensors and its input, in order; it may change them."""

        def before(vertex: Vertex, x: Tensor) -> None:
            if isinstance(vertex, Normalisation):
                hook(vertex, self.tensors(vertex), x)

        self.visit(images, before)

    def visit(self, images: Tensor, before: See, after: See = lambda vertex, value: None) -> Tensor:
        """Call `before` with each vertex and its input, in order, and `after` with its value; return the scores. Both
        may change the vertex's tensors."""
        steps, classifier = self._steps
        seen = [
            _seen(self.dna.vertex[name], step, before, after) for name, step in zip(self.dna.order, steps, strict=True)
        ]
        return _run(seen, images, classifier)


def _seen(vertex: Vertex, step: _Step, before: See, after: See) -> _Step:
    def operation(x: Tensor) -> Tensor:
        before(vertex, x)
        value = x if step.operation is None else step.operation(x)
        after(vertex, value)
        return value

    return step._replace(operation=operation)


def _run(steps: list[_Step], images: Tensor, classifier: Operation) -> Tensor:
    values: list[Tensor | None] = []
    x = images  # (batch, channels, height, width)
    for step in steps:
        if step.summands:
            x = _sum(step.summands, values)
        if step.operation is not None:
            x = step.operation(x)
        values.append(x)
        for place in step.used_up:
            values[place] = None
    return classifier(x)


def _folded(model: Model, name: str, step: _Step) -> _Step:
    """Fold the vertex's normalisation into the operation of its only edge; a sum of edges cannot be folded."""
    vertex, edges = model.dna.vertex[name], model.dna.edges_in[name]
    affine = vertex.affine(model.tensors(vertex)) if len(edges) == 1 else None
    scaled = None if affine is None else edges[0].scaled(model.tensors(edges[0]), *affine)
    if scaled is None:
        return step
    return _Step([step.summands[0]._replace(operation=scaled)], vertex.rectifier(), step.used_up)


def _sum(summands: list[_Summand], values: list[Tensor | None]) -> Tensor:
    total = None
    for source, operation, fit_to in summands:
        x = values[source]
        assert x is not None, "a vertex was freed before its last use"
        if operation is not None:
            x = operation(x)
        if fit_to is not None:
            x = fit(x, fit_to)
        total = x if total is None else total + x
    assert total is not None, "every vertex but the input has an incoming edge"
    return total


def _steps(model: Model, sizes: Shapes) -> list[_Step]:
    dna = model.dna
    place = {vertex: i for i, vertex in enumerate(dna.order)}
    last_use = dict(dna.arcs)  # they are in the order of the vertices that they lead to
    steps = []
    for vertex in dna.order:
        shape = sizes.vertices[vertex]
        summands = [
            _Summand(
                place[edge.from_vertex],
                edge.operation(model.tensors(edge)),
                shape if sizes.edges[edge.id] != shape else None,
            )
            for edge in dna.edges_in[vertex]
        ]
        used_up = [place[edge.from_vertex] for edge in dna.edges_in[vertex] if last_use[edge.from_vertex] == vertex]
        operation = dna.vertex[vertex].operation(model.tensors(dna.vertex[vertex]))
        steps.append(_Step(summands, operation, used_up))
    return steps


def _draw_weights(model: Model, sizes: Shapes, rng: torch.Generator) -> None:
    """Draw the initial weights; several edges into one vertex share the variance of one."""
    for edge in model.dna.edges:
        _draw(model, edge, sizes.vertices[edge.from_vertex], len(model.dna.edges_in[edge.to_vertex]), rng)
    for vertex in model.dna.vertices:
        _draw(model, vertex, sizes.vertices[vertex.id], 1, rng)
    weight = model.get_parameter(f"{CLASSIFIER}{model.dna.output}.weight")
    he_normal(weight, weight.shape[1], rng)


def _draw(model: Model, layer: Layer, source: Shape, summands: int, rng: torch.Generator) -> None:
    for name, weight in layer.weights(source).items():
        if weight.start == "normal":
            he_normal(getattr(model.tensors(layer), name), weight.fan_in * summands, rng)
