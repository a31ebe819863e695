"""The network of a DNA as a torch module (the paper's `Model`, supplement S1). Activations are channels-last.

Parameter names contain the DNA's IDs, because children inherit weights by name: `edge_<id>.weight`,
`vertex_<id>.weight`, `classifier_<id of the output>.bias`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from genepool.dna import DNA, Conv, Shape, Shapes, shapes


class Filters(nn.Module):
    """A convolution without bias that divides height and width by the stride, rounding up."""

    def __init__(self, edge: Conv, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.stride = edge.stride
        self.padding = (edge.filter_height // 2, edge.filter_width // 2)
        size = (channels_out, channels_in, edge.filter_height, edge.filter_width)
        self.weight = nn.Parameter(torch.empty(size, memory_format=torch.channels_last))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, None, self.stride, self.padding)

    def then(self, activation: Activation) -> Callable[[Tensor], Tensor]:
        """Fuse this convolution and the activation after it into one operation, for validation."""
        scale = activation.weight * torch.rsqrt(activation.running_var + activation.EPSILON)
        weight = (self.weight * scale.view(-1, 1, 1, 1)).contiguous(memory_format=torch.channels_last)
        bias = activation.bias - activation.running_mean * scale
        return lambda x: activation.rectify(functional.conv2d(x, weight, bias, self.stride, self.padding))


class Activation(nn.Module):
    """Batch normalisation, with moving averages of decay 0.9 for validation, and a rectifier."""

    DECAY = 0.9
    EPSILON = 0.001

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, leakiness: float) -> None:
        super().__init__()
        self.leakiness = leakiness
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        statistics = (self.running_mean, self.running_var)
        y = functional.batch_norm(x, *statistics, self.weight, self.bias, self.training, 1 - self.DECAY, self.EPSILON)
        return self.rectify(y)

    def rectify(self, y: Tensor) -> Tensor:
        """Rectify in place, because the gradient of batch normalisation only needs its input."""
        return functional.relu_(y) if self.leakiness == 0 else functional.leaky_relu_(y, self.leakiness)


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


Operation = Callable[[Tensor], Tensor]


class _Summand(NamedTuple):
    """The value of one edge."""

    source: int
    filters: Operation | None
    fit_to: Shape | None
    """The vertex's shape, if the edge's value has another one."""


class _Step(NamedTuple):
    """The computation of one vertex. Vertices are numbered in topological order."""

    summands: list[_Summand]
    activation: Operation | None
    used_up: list[int]
    """Vertices that are not needed after this one, so that their memory can be freed."""


class Model(nn.Module):
    """A network: normalised images (batch, channels, height, width) in, class scores out."""

    def __init__(self, dna: DNA, image: Shape, classes: int, rng: torch.Generator) -> None:
        super().__init__()
        self.dna, self.image = dna, image
        sizes = shapes(dna, image)
        for edge in dna.convs:
            depth_in, depth_out = sizes.vertices[edge.from_vertex].channels, sizes.edges[edge.id].channels
            self.add_module(f"edge_{edge.id}", Filters(edge, depth_in, depth_out))
        for vertex in dna.vertices:
            if vertex.type == "bn_relu":
                channels = sizes.vertices[vertex.id].channels
                self.add_module(f"vertex_{vertex.id}", Activation(channels, vertex.leakiness))
        self.add_module(f"classifier_{dna.output}", Classifier(sizes.vertices[dna.output].channels, classes))
        _draw_weights(self, rng)
        # The bare function: calling the module looks for hooks, which the smallest networks notice.
        self._steps = (_steps(self, sizes), self.get_submodule(f"classifier_{dna.output}").forward)

    def forward(self, images: Tensor) -> Tensor:
        steps, classifier = self._steps
        return _run(steps, images, classifier)

    def for_validation(self) -> Operation:
        """Return the current network without gradients, with batch normalisation folded into filters if possible."""
        self.eval()
        unfolded, classifier = self._steps
        with torch.no_grad():
            steps = [_folded(step) for step in unfolded]
        return torch.inference_mode()(lambda images: _run(steps, images, classifier))

    def run_with_hook(self, images: Tensor, hook: Callable[[str, Activation, Tensor], None]) -> None:
        """Call the hook with each normalisation and its input, in order; it may change the normalisation."""
        steps, classifier = self._steps
        hooked = [_hooked(vertex, step, hook) for vertex, step in zip(self.dna.order, steps, strict=True)]
        _run(hooked, images, classifier)


def _hooked(vertex: str, step: _Step, hook: Callable[[str, Activation, Tensor], None]) -> _Step:
    activation = step.activation
    if not isinstance(activation, Activation):
        return step

    def operation(x: Tensor) -> Tensor:
        hook(vertex, activation, x)
        return activation(x)

    return step._replace(activation=operation)


def _run(steps: list[_Step], images: Tensor, classifier: Operation) -> Tensor:
    values: list[Tensor | None] = []
    x = images  # (batch, channels, height, width)
    for step in steps:
        if step.summands:
            x = _sum(step.summands, values)
        if step.activation is not None:
            x = step.activation(x)
        values.append(x)
        for place in step.used_up:
            values[place] = None
    return classifier(x)


def _folded(step: _Step) -> _Step:
    """Fold the vertex's normalisation into a convolution that is the only edge; a sum of edges cannot be folded."""
    if len(step.summands) != 1 or not isinstance(step.activation, Activation):
        return step
    [(source, filters, fit_to)] = step.summands
    if not isinstance(filters, Filters):
        return step
    return _Step([_Summand(source, filters.then(step.activation), fit_to)], None, step.used_up)


def _sum(summands: list[_Summand], values: list[Tensor | None]) -> Tensor:
    total = None
    for source, filters, fit_to in summands:
        x = values[source]
        assert x is not None, "a vertex was freed before its last use"
        if filters is not None:
            x = filters(x)
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
                model.get_submodule(f"edge_{edge.id}") if isinstance(edge, Conv) else None,
                shape if sizes.edges[edge.id] != shape else None,
            )
            for edge in dna.edges_in[vertex]
        ]
        active = dna.vertex[vertex].type == "bn_relu"
        used_up = [place[edge.from_vertex] for edge in dna.edges_in[vertex] if last_use[edge.from_vertex] == vertex]
        steps.append(_Step(summands, model.get_submodule(f"vertex_{vertex}") if active else None, used_up))
    return steps


def _draw_weights(model: Model, rng: torch.Generator) -> None:
    """Initialise as in He et al. (2015); several edges into one vertex share the variance of one."""
    for edge in model.dna.convs:
        weight = model.get_parameter(f"edge_{edge.id}.weight")
        _he_normal(weight, weight[0].numel() * len(model.dna.edges_in[edge.to_vertex]), rng)
    weight = model.get_parameter(f"classifier_{model.dna.output}.weight")
    _he_normal(weight, weight.shape[1], rng)


def _he_normal(weight: Tensor, fan_in: int, rng: torch.Generator) -> None:
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=rng) * math.sqrt(2 / fan_in))
