"""Narrowing a trained network so that it keeps its function as far as it can.

Differs from the paper, where a tensor of another shape starts from random values. `wider` gives the child's network the
widths of its parent, so that it can inherit everything. `narrow` then chooses the channels to keep, the same ones for
all activations that share channel numbers, and copies their weights. Of two channels that vary together one is enough:
layers behind read what is lost off the channels that remain, as well as a linear function can. Statistics follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from genepool.dna import DNA, Shape, Shapes, shapes, tied, with_widths
from genepool.layers import EPSILON, Affine, Edge, Normalisation, Vertex
from genepool.layers.tensors import Kept
from genepool.nn.channel_choice import RIDGE, Reader, chosen, ranked
from genepool.nn.model import Model

SAMPLES = 20_000  # pixels that the products of channels are estimated from


def wider(dna: DNA, parent: Mapping[str, Tensor], image: Shape) -> DNA:
    """Return the network with at least the widths that the parent's tensors have."""
    sizes, widths = shapes(dna, image), {}
    channels = {dna.input: image.channels}
    for vertex in dna.order[1:]:
        brought = {}
        for edge in dna.edges_in[vertex]:
            brought[edge.id] = edge.depth_out(channels[edge.from_vertex])
            if edge.sets_depth:
                known = _width(edge, parent, sizes.vertices[edge.from_vertex])
                if known is None and edge is dna.depth_primary(vertex):
                    known = channels[edge.from_vertex]  # it will pass its input on
                widths[edge.id] = brought[edge.id] = max(sizes.edges[edge.id].channels, known or 0)
        channels[vertex] = brought[dna.depth_primary(vertex).id]
    return (
        dna if all(widths[name] == sizes.edges[name].channels for name in widths) else with_widths(dna, image, widths)
    )


def _width(edge: Edge, parent: Mapping[str, Tensor], source: Shape) -> int | None:
    """Return the channels of the edge's value in the parent, None if the edge is new. The last of its tensors that has
    an axis for them counts, because a layer of several convolutions ends with it."""
    parts = {name for name in parent if name.startswith(f"{edge.module_name}.")}
    found = 0 if parts else None  # it may have been of another kind
    for name, weight in edge.weights(source).items():
        tensor = parent.get(f"{edge.module_name}.{name}")
        has_out = weight.axes[0] == "out" if weight.axes else weight.shape[0] == edge.depth_out(source.channels)
        if tensor is not None and has_out and tensor.ndim == len(weight.shape) > 1:
            found = len(tensor)
    return found


def narrow(model: Model, larger: Model, images: Tensor) -> None:
    """Give a network the weights of the same network with more channels. The images show what channels have in common
    and keep the statistics of normalisations right."""
    with torch.no_grad():
        _Narrowing(model, larger, images).run()
    model.train()


class _Statistics(NamedTuple):
    mean: Tensor
    variance: Tensor


def _statistics(x: Tensor) -> _Statistics:
    variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
    return _Statistics(mean, variance)


class _Narrowing:
    """One network and the same with more channels: what `narrow` finds out, in the order in which it does."""

    def __init__(self, model: Model, larger: Model, images: Tensor) -> None:
        self.model, self.larger, self.images = model.eval(), larger.eval(), images
        self.old, self.new = shapes(larger.dna, larger.image), shapes(model.dna, model.image)
        self.groups = [names for names in tied(model.dna) if _widths(names, self.old) != _widths(names, self.new)]
        self.products: dict[str, Tensor] = {}
        """For each vertex that loses channels, the mean products of every two of them."""
        self.inputs: dict[str, _Statistics] = {}
        self.kept: dict[str, Tensor] = {}

    def run(self) -> None:
        self._observe()
        for names in self.groups:
            self._choose(names)
        for edge in self.model.dna.edges:
            if edge.from_vertex in self.products:
                edge.absorb(self.larger.tensors(edge), *self._shares(edge.from_vertex))
        self._copy()
        self._copy_classifier()
        self.model.visit(self.images, self._correct)

    def _observe(self) -> None:
        concerned = {name for names in self.groups for name in names}

        def before(vertex: Vertex, x: Tensor) -> None:
            if isinstance(vertex, Normalisation | Affine):
                self.inputs[vertex.id] = _statistics(x)

        def after(vertex: Vertex, value: Tensor) -> None:
            if vertex.id in concerned:
                self.products[vertex.id] = _products(value)

        self.larger.visit(self.images, before, after)

    def _choose(self, names: tuple[str, ...]) -> None:
        old, new = _widths(names, self.old), _widths(names, self.new)
        first = self.model.image.channels if self.model.dna.input in names else 0
        order = ranked(list(self._readers(names)), max(old.values()), first)
        numbers = chosen(old, new, order, self._blocks(names))
        for name in names:
            self.kept[name] = numbers[: new[name]]

    def _readers(self, names: tuple[str, ...]) -> Iterator[Reader]:
        """Yield everything that reads channels of these vertices; if nothing does, the vertices themselves."""
        found = False
        for name in names:
            if name in self.products:
                for matrix in self._matrices(name):
                    if matrix.any():  # a new classifier does not read anything yet
                        found = True
                        yield Reader.of(self.products[name], matrix)
        if not found:
            for name in names:
                if name in self.products:
                    yield Reader.of(self.products[name], torch.eye(len(self.products[name]), dtype=torch.float64))

    def _matrices(self, vertex: str) -> Iterator[Tensor]:
        dna = self.larger.dna
        for edge in dna.edges:
            if edge.from_vertex == vertex:
                numbers = edge.reading(self.larger.tensors(edge), self.old.vertices[vertex])
                if numbers is not None:
                    yield _squared(numbers, self._scale(edge.to_vertex))
        if vertex == dna.output:
            yield _squared(self.larger.get_parameter(f"classifier_{vertex}.weight"), None)

    def _scale(self, vertex: str) -> Tensor | None:
        """Return the numbers by which a vertex multiplies its input, so that all channels behind it count alike."""
        layer = self.larger.dna.vertex[vertex]
        affine = layer.affine(self.larger.tensors(layer))
        return None if affine is None else affine[0]

    def _blocks(self, names: tuple[str, ...]) -> int:
        """Return the number of blocks of channels to choose from alike, so that grouped convolutions keep groups."""
        blocks = 1
        for edge in self.model.dna.edges:
            if edge.id in names or edge.from_vertex in names:
                before, after = (sizes.vertices[edge.from_vertex].channels for sizes in (self.old, self.new))
                wide = self.larger.dna.edge[edge.id]
                if edge.group_count(after) == (count := wide.group_count(before)):
                    blocks = max(blocks, count)
        return blocks

    def _shares(self, vertex: str) -> tuple[Tensor, Tensor, Tensor]:
        """Return the channels that a vertex keeps, those that it loses, and how these follow from the others."""
        products, kept = self.products[vertex], self.kept[vertex]
        is_lost = torch.ones(len(products), dtype=torch.bool)
        is_lost[kept] = False
        lost = is_lost.nonzero()[:, 0]
        ridge = max(1e-30, RIDGE * float(products.diagonal().mean()))
        equations = products[kept][:, kept] + ridge * torch.eye(len(kept), dtype=torch.float64)
        shares = torch.linalg.solve(equations, products[kept][:, lost]).T
        device = self.images.device
        return kept.to(device), lost.to(device), shares.to(device, torch.float32)

    def _kept(self, name: str) -> Kept:
        before = _channels(name, self.old)
        return Kept(self.kept.get(name, torch.arange(before)), before)

    def _copy(self) -> None:
        for layer in (*self.model.dna.edges, *self.model.dna.vertices):
            if layer.has_weights:
                start = layer.from_vertex if isinstance(layer, Edge) else layer.id
                source, into, out = self.new.vertices[start], self._kept(start), self._kept(layer.id)
                layer.narrow(self.model.tensors(layer), self.larger.tensors(layer), source, into, out)

    def _copy_classifier(self) -> None:
        output = self.model.dna.output
        weight, bias = (self.larger.get_parameter(f"classifier_{output}.{name}") for name in ("weight", "bias"))
        mine = self.model.get_parameter(f"classifier_{output}.weight")
        if output in self.products:
            kept, lost, shares = self._shares(output)
            mine.copy_(weight[:, kept] + weight[:, lost] @ shares)  # the mean over pixels is linear
        else:
            mine.copy_(weight)
        self.model.get_parameter(f"classifier_{output}.bias").copy_(bias)

    def _correct(self, vertex: Vertex, x: Tensor) -> None:
        """Change what a vertex expects of its input as much as the input changed on the images."""
        if vertex.id not in self.inputs:
            return
        tensors, now = self.model.tensors(vertex), _statistics(x)
        numbers = self._kept(vertex.id).numbers.to(x.device)
        shift = now.mean - self.inputs[vertex.id].mean[numbers]
        if isinstance(vertex, Normalisation):
            tensors.running_mean += shift
            tensors.running_var *= (now.variance + EPSILON) / (self.inputs[vertex.id].variance[numbers] + EPSILON)
        else:
            tensors.bias -= tensors.weight * shift


def _channels(name: str, sizes: Shapes) -> int:
    return (sizes.vertices.get(name) or sizes.edges[name]).channels


def _widths(names: tuple[str, ...], sizes: Shapes) -> dict[str, int]:
    return {name: _channels(name, sizes) for name in names}


def _products(value: Tensor) -> Tensor:
    pixels = value.permute(0, 2, 3, 1).flatten(0, 2)  # (pixels of all images, channels)
    pixels = pixels[:: 1 + len(pixels) // SAMPLES].double()
    return (pixels.T @ pixels / len(pixels)).cpu()


def _squared(numbers: Tensor, scale: Tensor | None) -> Tensor:
    """Return what a change of the input's channels does to the sum of squares of the value, as a quadratic form."""
    if scale is not None:
        both = min(len(scale), len(numbers))
        numbers = numbers[:both] * scale[:both].view(-1, *[1] * (numbers.ndim - 1))
    flat = numbers.movedim(1, 0).flatten(1).double().cpu()  # (channels of the input, ...)
    return flat @ flat.T
