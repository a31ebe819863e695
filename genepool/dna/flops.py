"""Parameters, FLOPs, memory and step time of a network, computed from its shapes alone.

Follows the paper's "Computation cost" and supplement S2: every kind of operation listed there is counted, with its
gradient. One multiplication, one addition and one element of an element-wise operation are one operation each. Moving
and reshaping data (resizing, cutting, padding) and reading images are not counted, as in the paper.

`n` is the number of values of an activation over the batch, `c` its channels, `p` a number of parameters:

    operation                forward, training           forward, validation   gradient
    convolution              2 n_out (c_in kh kw)        same                  as much for the filters, and again for
                             c_in: channels of a group                         the input if that needs a gradient
    max pooling              n_out kh kw compared        same                  n_out
    average pooling          a sum of n_out kh kw, n_out same                  as much
    sum at a vertex          n for each edge but one     same                  n for each use of a vertex but one
    batch norm               3 n, two means of n, 11 c   2 n, 4 c              7 n, two sums of n
    rectifier                n (2 n if leaky)            same                  n
    ReLU6, SiLU, GELU        2 n (hard swish: 3 n)       same                  n
    affine                   2 n                         same                  2 n, two sums of n
    squeeze-excitation       2 n, two fully connected    same                  3 n, a sum of n, and theirs
                             layers, 3 c, 2 c_squeezed
    global average pooling   a sum of n, one division    same                  n
    fully connected layer    2 n_in classes, n_out       same                  as a convolution, and a sum of n_out
    softmax, cross-entropy   3 n, two sums of n          an argmax of n        2 n
    weight decay, momentum   -                           -                     2 p (decayed), 4 p

An input needs a gradient only if there are parameters before it; torch computes the same.

The memory is an upper bound on the size of a process that trains the network, measured with torch 2.13 on a CPU.

The step time is an estimate for comparing networks on one machine, fitted to measurements on one x86 core with batches
of 50. CPUs compute convolutions on blocks of channels, so a narrow layer takes as long as a full block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from genepool.dna.graph import DNA
from genepool.dna.shapes import Shapes, shapes
from genepool.layers import Edge, Flops, Item, Shape, blaming, update

PROCESS_MEMORY = 320 * 2**20
"""Bytes of an idle worker: Python, torch and its compiled convolutions. Memory-mapped images are shared."""
VALIDATION_BATCH = 100
"""Images per validation batch. On CPUs the speed hardly depends on it, but the memory does."""
_ELEMENT = 32 * 1024  # bytes per vertex or edge of any size: modules, tensor headers, records for gradients
_WEIGHTS = 6  # copies of the weights: themselves, momentum, gradients, and a checkpoint being written
_FRAGMENTS = 1.75  # fragmentation: aligned allocations cannot use a hole of exactly their own size
_PASSING = 4  # activations of the largest size that exist temporarily at the same time: gradients and sums of edges


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of a network for one batch."""

    batch: int
    items: dict[str, Item]
    """By vertex or edge ID, and CLASSIFIER."""

    @property
    def parameters(self) -> int:
        return sum(item.parameters for item in self.items.values())

    @property
    def memory(self) -> int:
        """The most bytes of a process that trains the network, without the weights of parents or a checkpoint."""
        items = self.items.values()
        kept, waiting = sum(item.kept for item in items), sum(item.waiting for item in items)
        passing = _PASSING * max(item.passing for item in items)
        training = int(_FRAGMENTS * (kept + waiting)) + passing
        validation = (int(_FRAGMENTS * waiting) + passing) * VALIDATION_BATCH // self.batch
        values = max(training, validation) + max(item.buffers for item in items) + _WEIGHTS * self.parameters
        return PROCESS_MEMORY + _ELEMENT * len(items) + 4 * values

    @property
    def forward(self) -> Flops:
        return sum((item.forward for item in self.items.values()), Flops())

    @property
    def training(self) -> Flops:
        return sum((item.training for item in self.items.values()), Flops())


CLASSIFIER = "classifier: pooling, fully connected layer, loss"


def requirements(dna: DNA, image: Shape, classes: int, batch: int = 50) -> Requirements:
    """Compute the requirements for one batch: F_v is `forward.total`, F_t is `training.total`."""
    with blaming(dna.layers):
        return _requirements(dna, image, classes, batch)


def _requirements(dna: DNA, image: Shape, classes: int, batch: int) -> Requirements:
    sizes = shapes(dna, image)
    needs_gradient = gradients_needed(dna)
    uses = {vertex: sum(edge.from_vertex == vertex for edge in dna.edges) for vertex in dna.order}
    items = {}
    for edge in dna.edges:
        source = edge.from_vertex
        items[edge.id] = edge.requirements(sizes.vertices[source], batch, needs_gradient[source])
    for vertex in dna.vertices:
        returns = uses[vertex.id] if needs_gradient[vertex.id] else 0
        needs_input = any(map(_brings_gradient(needs_gradient), dna.edges_in[vertex.id]))
        own = vertex.requirements(sizes.vertices[vertex.id], batch, needs_input)
        items[vertex.id] = own + _sum(
            sizes.vertices[vertex.id], batch, len(dna.edges_in[vertex.id]), returns, uses[vertex.id] > 1
        )
    items[CLASSIFIER] = _classifier(sizes.vertices[dna.output], classes, batch, needs_gradient[dna.output])
    return Requirements(batch=batch, items=items)


def individual_flops(needs: Requirements, training_batches: int, validation_images: int) -> int:
    """Return F_t N_t + F_v N_v, the paper's cost of an individual; a smaller last validation batch counts partly."""
    return needs.training.total * training_batches + needs.forward.total * validation_images // needs.batch


def gradients_needed(dna: DNA) -> dict[str, bool]:
    """Return, for each vertex, whether any parameter lies at or before it, so that a gradient is needed there."""
    needed: dict[str, bool] = {}
    for vertex in dna.order:
        brings = _brings_gradient(needed)
        needed[vertex] = dna.vertex[vertex].has_weights or any(brings(edge) for edge in dna.edges_in[vertex])
    return needed


def _brings_gradient(needed: Mapping[str, bool]) -> Callable[[Edge], bool]:
    return lambda edge: edge.has_weights or needed[edge.from_vertex]


def _sum(shape: Shape, batch: int, summands: int, returns: int, waits: bool) -> Item:
    """The requirements of a vertex for the sum of its edges, whatever it does with the sum."""
    n = batch * shape.values
    sums = Flops(elementwise=n * max(0, summands - 1))
    both = sums + Flops(elementwise=n * max(0, returns - 1))
    return Item(forward=sums, training=both, kept=n, waiting=n if waits else 0, passing=n)


def _classifier(shape: Shape, classes: int, batch: int, input_gradient: bool) -> Item:
    n, pooled, scores = batch * shape.values, batch * shape.channels, batch * classes
    weights = shape.channels * classes
    once = 2 * batch * weights
    common = Flops(matrix=once, elementwise=pooled + scores, reduction=n)
    forward = common + Flops(elementwise=batch, reduction=scores + batch)
    loss = Flops(elementwise=3 * scores + batch, reduction=2 * scores + batch)
    backward = Flops(matrix=once, elementwise=2 * scores, reduction=scores)
    if input_gradient:
        backward += Flops(matrix=once, elementwise=n)
    training = common + loss + backward + update(weights + classes, weights)
    return Item(parameters=weights + classes, decayed=weights, forward=forward, training=training)


class Capacity(NamedTuple):
    """The parameters and FLOPs of a network for images of one shape."""

    parameters: int
    flops: int
    """FLOPs of the forward pass of one image."""


def capacity(dna: DNA, image: Shape, classes: int) -> Capacity:
    """Compute it for a single image, since a batch shares some of its operations."""
    one = requirements(dna, image, classes, batch=1)
    return Capacity(one.parameters, one.forward.total)


_STEP = 0.9e-3  # seconds of every step: augmentation, loss and the calls of the update
_LAYER = 0.1e-3
_MULTIPLYING = 120e9  # operations per second
_MOVING = 4e9


class StepTime(NamedTuple):
    seconds: float
    flops: float


def step_time(dna: DNA, image: Shape, classes: int, batch: int) -> StepTime:
    """Estimate the time of a step."""
    with blaming(dna.layers):
        return _step_time(dna, image, classes, batch)


def _step_time(dna: DNA, image: Shape, classes: int, batch: int) -> StepTime:
    sizes = shapes(dna, image)
    multiplications = sum(edge.multiplications(sizes.vertices[edge.from_vertex]) for edge in dna.edges)
    multiplications += sum(vertex.multiplications(sizes.vertices[vertex.id]) for vertex in dna.vertices)
    moved = requirements(dna, image, classes, batch).training
    layers = sum(bool(edge.label) for edge in dna.edges) + len(dna.vertices)
    seconds = _STEP + layers * _LAYER + 6.0 * batch * multiplications / _MULTIPLYING
    return StepTime(seconds + (moved.elementwise + moved.reduction) / _MOVING, float(moved.total))


def network_facts(individual: DNA, image: Shape, classes: int, batch: int) -> dict[str, Any]:
    """The shapes and requirements of a network, by vertex and in total, as JSON values."""
    sizes, needs = shapes(individual, image), requirements(individual, image, classes, batch)
    return {
        "image": list(image),
        "classes": classes,
        "batch": batch,
        "learning_rate": individual.learning_rate,
        "body_rate": individual.body_rate,
        "parameters": needs.parameters,
        "flops_forward": needs.forward.total,
        "flops_training": needs.training.total,
        "memory": needs.memory,
        "vertices": [_vertex_row(individual, vertex, sizes, needs) for vertex in individual.order],
    }


def _vertex_row(individual: DNA, vertex: str, sizes: Shapes, needs: Requirements) -> dict[str, Any]:
    edges = individual.edges_in[vertex]
    items = [needs.items[vertex], *(needs.items[edge.id] for edge in edges)]
    if vertex == individual.output:
        items.append(needs.items[CLASSIFIER])
    return {
        "id": vertex,
        "type": individual.vertex[vertex].type,
        "edges": [{"id": edge.id, "from": edge.from_vertex, "kind": edge.title} for edge in edges],
        **sizes.vertices[vertex]._asdict(),
        "parameters": sum(item.parameters for item in items),
        "flops_forward": sum(item.forward.total for item in items),
        "flops_training": sum(item.training.total for item in items),
    }
