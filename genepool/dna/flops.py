"""Parameters, FLOPs, memory and step time of a network, computed from its shapes alone.

Follows the paper's "Computation cost" and supplement S2: every kind of operation listed there is counted, with its
gradient. One multiplication, one addition and one element of an element-wise operation are one operation each. Moving
and reshaping data (resizing, cutting, padding) and reading images are not counted, as in the paper.

`n` is the number of values of an activation over the batch, `c` its channels, `p` a number of parameters:

    operation                forward, training           forward, validation   gradient
    convolution              2 n_out (c_in kh kw)        same                  as much for the filters, and again for
                                                                               the input if that needs a gradient
    sum at a vertex          n for each edge but one     same                  n for each use of a vertex but one
    batch norm               3 n, two means of n, 11 c   2 n, 4 c              7 n, two sums of n
    rectifier                n (2 n if leaky)            same                  n
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

from typing import Any, NamedTuple

import msgspec

from genepool.dna.elements import Conv, Vertex
from genepool.dna.graph import DNA
from genepool.dna.shapes import Shape, Shapes, shapes

PROCESS_MEMORY = 320 * 2**20
"""Bytes of an idle worker: Python, torch and its compiled convolutions. Memory-mapped images are shared."""
VALIDATION_BATCH = 100
"""Images per validation batch. On CPUs the speed hardly depends on it, but the memory does."""
_ELEMENT = 32 * 1024
"""Bytes per vertex or edge of any size: modules, tensor headers, records for gradients."""
_WEIGHTS = 6
"""Copies of the weights: themselves, momentum, gradients, and a checkpoint being written."""
_FRAGMENTS = 1.75
"""Fragmentation: aligned allocations cannot use a hole of exactly their own size."""
_PASSING = 4
"""Activations of the largest size that exist temporarily at the same time: gradients and sums of edges."""


class Flops(msgspec.Struct, frozen=True):
    """Floating-point operations by kind."""

    convolution: int = 0
    matrix: int = 0
    elementwise: int = 0
    reduction: int = 0

    def __add__(self, other: Flops) -> Flops:
        convolution, matrix = self.convolution + other.convolution, self.matrix + other.matrix
        return Flops(convolution, matrix, self.elementwise + other.elementwise, self.reduction + other.reduction)

    @property
    def total(self) -> int:
        return self.convolution + self.matrix + self.elementwise + self.reduction


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of one vertex, one edge or the classifier for one batch; memory is counted in values."""

    parameters: int = 0
    decayed: int = 0
    """The parameters that weight decay acts on: filters and the classifier's matrix."""
    forward: Flops = Flops()
    """FLOPs in validation."""
    training: Flops = Flops()
    """FLOPs of forward pass, backward pass and update."""
    kept: int = 0
    """Kept for the backward pass."""
    waiting: int = 0
    """Kept until the last of several edges has used them: the activation and its gradient."""
    passing: int = 0
    """The largest temporary activation."""
    buffers: int = 0
    """Needed while a convolution is computed: reordered filters and the patches of one image."""


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
    sizes = shapes(dna, image)
    needs_gradient = gradients_needed(dna)
    uses = {vertex: sum(edge.from_vertex == vertex for edge in dna.edges) for vertex in dna.order}
    items = {edge.id: Item() for edge in dna.edges}
    for edge in dna.convs:
        source = sizes.vertices[edge.from_vertex]
        items[edge.id] = _conv(edge, source, sizes.edges[edge.id], batch, needs_gradient[edge.from_vertex])
    for vertex in dna.vertices:
        summands, shape = len(dna.edges_in[vertex.id]), sizes.vertices[vertex.id]
        returns = uses[vertex.id] if needs_gradient[vertex.id] else 0
        items[vertex.id] = _vertex(vertex, shape, batch, summands, returns, uses[vertex.id] > 1)
    items[CLASSIFIER] = _classifier(sizes.vertices[dna.output], classes, batch, needs_gradient[dna.output])
    return Requirements(batch=batch, items=items)


def individual_flops(needs: Requirements, training_batches: int, validation_images: int) -> int:
    """Return F_t N_t + F_v N_v, the paper's cost of an individual; a smaller last validation batch counts partly."""
    return needs.training.total * training_batches + needs.forward.total * validation_images // needs.batch


def gradients_needed(dna: DNA) -> dict[str, bool]:
    """Return, for each vertex, whether any parameter lies at or before it, so that a gradient is needed there."""
    needed: dict[str, bool] = {}
    for vertex in dna.order:
        needed[vertex] = dna.vertex[vertex].type == "bn_relu" or any(
            isinstance(edge, Conv) or needed[edge.from_vertex] for edge in dna.edges_in[vertex]
        )
    return needed


def _conv(edge: Conv, source: Shape, result: Shape, batch: int, input_gradient: bool) -> Item:
    filters = source.channels * edge.filter_width * edge.filter_height * result.channels
    once = 2 * batch * result.height * result.width * filters
    # Channels are rounded up to the vector width, once for the filters and once for their gradient.
    reordered = 2 * (-(-source.channels // 16) * 16) * (-(-result.channels // 16) * 16)
    patches = 2 * result.height * result.width * source.channels
    return Item(
        parameters=filters,
        decayed=filters,
        forward=Flops(convolution=once),
        training=Flops(convolution=once * (3 if input_gradient else 2)) + _update(filters, filters),
        passing=batch * result.values,
        buffers=(reordered + patches) * edge.filter_width * edge.filter_height,
    )


def _vertex(vertex: Vertex, shape: Shape, batch: int, summands: int, returns: int, waits: bool) -> Item:
    n, c = batch * shape.values, shape.channels
    waiting = n if waits else 0
    sums = Flops(elementwise=n * max(0, summands - 1))
    both_sums = sums + Flops(elementwise=n * max(0, returns - 1))
    if vertex.type == "linear":
        return Item(forward=sums, training=both_sums, kept=n, waiting=waiting, passing=n)
    rectifier = n if vertex.leakiness == 0 else 2 * n
    forward = sums + Flops(elementwise=2 * n + 4 * c + rectifier)
    training = both_sums + Flops(elementwise=3 * n + 11 * c + rectifier, reduction=2 * n)
    training += Flops(elementwise=7 * n + n, reduction=2 * n) + _update(2 * c, 0)
    return Item(parameters=2 * c, forward=forward, training=training, kept=2 * n, waiting=waiting, passing=n)


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
    training = common + loss + backward + _update(weights + classes, weights)
    return Item(parameters=weights + classes, decayed=weights, forward=forward, training=training)


def _update(parameters: int, decayed: int) -> Flops:
    return Flops(elementwise=4 * parameters + 2 * decayed)


class Capacity(NamedTuple):
    """The parameters and FLOPs of a network for images of one shape."""

    parameters: int
    flops: int
    """FLOPs of the forward pass of one image."""


def capacity(dna: DNA, image: Shape, classes: int) -> Capacity:
    """Compute it for a single image, since a batch shares some of its operations."""
    one = requirements(dna, image, classes, batch=1)
    return Capacity(one.parameters, one.forward.total)


_BLOCK = 16
_STEP = 0.9e-3
"""Seconds of every step: augmentation, loss and the calls of the update."""
_LAYER = 0.1e-3
_MULTIPLYING = 120e9
"""Operations per second."""
_MOVING = 4e9


class StepTime(NamedTuple):
    seconds: float
    flops: float


def step_time(dna: DNA, image: Shape, classes: int, batch: int) -> StepTime:
    """Estimate the time of a step."""
    sizes = shapes(dna, image)
    multiplications = 0.0
    for edge in dna.convs:
        into, out = sizes.vertices[edge.from_vertex], sizes.edges[edge.id]
        filters = _blocks(into.channels) * _blocks(out.channels) * edge.filter_width * edge.filter_height
        multiplications += 6.0 * batch * out.height * out.width * filters
    moved = requirements(dna, image, classes, batch).training
    seconds = _STEP + (len(dna.convs) + len(dna.vertices)) * _LAYER + multiplications / _MULTIPLYING
    return StepTime(seconds + (moved.elementwise + moved.reduction) / _MOVING, float(moved.total))


def _blocks(channels: int) -> int:
    return -(-channels // _BLOCK) * _BLOCK if channels > 4 else channels


def network_facts(individual: DNA, image: Shape, classes: int, batch: int) -> dict[str, Any]:
    """The shapes and requirements of a network, by vertex and in total, as JSON values."""
    sizes, needs = shapes(individual, image), requirements(individual, image, classes, batch)
    return {
        "image": list(image),
        "classes": classes,
        "batch": batch,
        "learning_rate": individual.learning_rate,
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
        "edges": [{"id": edge.id, "from": edge.from_vertex, "kind": _kind(edge)} for edge in edges],
        **sizes.vertices[vertex]._asdict(),
        "parameters": sum(item.parameters for item in items),
        "flops_forward": sum(item.forward.total for item in items),
        "flops_training": sum(item.training.total for item in items),
    }


def _kind(edge: object) -> str:
    if not isinstance(edge, Conv):
        return "identity"
    stride = f" /{edge.stride}" if edge.stride > 1 else ""
    return f"conv {edge.filter_width}x{edge.filter_height}{stride}"
