"""What every kind of layer says about itself.

A layer is an edge or a vertex of a DNA (the paper's supplement S1): vertices are activations, edges connect them. A
kind of layer is one class, registered under the name that stands as `type` in a DNA. Its methods give the shape, FLOPs
and memory, the weights, the computation in torch, and how the layer is written into exported models and drawn.

All are frozen. They hold only numbers, truth values and strings, so they never form cycles: `gc=False` spares the
search for those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec

from genepool.layers.flops import Flops, Item, Shape, update
from genepool.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from genepool.layers.tensors import Kept, Tensors

BACKBONE_PRECEDENCE = 1
SKIP_PRECEDENCE = 0
PRECEDENCE_BOUNDS = (-1_000_000, 1_000_000)

Bounds = Mapping[str, tuple[float, float]]
Operation = Callable[["Tensor"], "Tensor"]  # (batch, channels, height, width) -> the same, possibly of another size


class Weight(NamedTuple):
    """A tensor of a layer."""

    shape: tuple[int, ...]
    start: Literal["normal", "zeros", "ones"] | float = "zeros"
    """The initial values: `normal` with the variance 2 / fan_in (He et al., 2015), or one number for all."""
    fan_in: int = 1
    is_trained: bool = True
    """False for a moving average, which is saved and inherited but has no gradient."""
    axes: tuple[str, ...] = ()
    """What the first axes number, if their lengths could mislead: `out` and `in` for the channels of the layer's value
    and of its input, any other word for something within the layer."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Graph(Protocol):
    """The ONNX graph that a layer writes its nodes into. Each node has one output, of the node's name."""

    def node(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node and return its name."""

    def weight(self, name: str, values: Tensor | np.ndarray[Any, Any]) -> str:
        """Add a constant and return its name."""


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", gc=False):
    """What edges and vertices have in common. `source` is the shape of a layer's input; a vertex keeps it."""

    id: str

    BOUNDS: ClassVar[Bounds] = {}
    """The lowest and highest values of numeric fields. They only keep numbers computable."""
    NAME: ClassVar[str] = ""
    """The word for it in exported models, where layers are numbered: `conv3`. Empty: the name of its kind."""
    SYMBOL: ClassVar[str] = ""
    """How it is written in one line: `C3x3/2+BN+R`. Empty if it computes nothing."""
    FAST_IN_BFLOAT16: ClassVar[bool] = True
    """False if a CPU trains it more slowly in bfloat16 than in float32."""

    @property
    def type(self) -> str:
        """The name of its kind."""
        return str(type(self).__struct_config__.tag)

    @property
    def module_name(self) -> str:
        """The name of the module with its tensors: children inherit weights by name."""
        return f"{'edge' if isinstance(self, Edge) else 'vertex'}_{self.id}"

    @property
    def symbol(self) -> str:
        return self.SYMBOL

    @property
    def label(self) -> str:
        """The symbol with the numbers that matter; empty if the layer computes nothing."""
        return self.symbol

    @property
    def title(self) -> str:
        """Its kind in words, with the numbers that matter."""
        return self.type

    @property
    def has_weights(self) -> bool:
        return type(self).weights is not Layer.weights

    def is_usual(self) -> bool:
        """Whether a quick test proves that its own numbers are within their bounds; False proves nothing."""
        return all(low <= getattr(self, name) <= high for name, (low, high) in self.BOUNDS.items())

    def result(self, source: Shape) -> Shape:
        """The shape of its value."""
        return source

    # Requirements

    def weights(self, source: Shape) -> dict[str, Weight]:
        """Its tensors by name."""
        return {}

    def flops(self, source: Shape, batch: int) -> Flops:
        """FLOPs of the forward pass in validation."""
        return Flops()

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        """FLOPs of the forward and backward pass: each gradient, of weights and of the input, takes as many."""
        once, times = self.flops(source, batch), 1 + self.has_weights + input_gradient
        return Flops(*(times * number for number in msgspec.structs.astuple(once)))

    def kept(self, source: Shape) -> int:
        """Values per image that are kept for the backward pass besides its input and its value."""
        return 0

    def buffers(self, source: Shape) -> int:
        """Values that are needed temporarily while it is computed."""
        return 0

    def multiplications(self, source: Shape) -> float:
        """Multiplications per image as a CPU computes them, on blocks of channels: for the step time."""
        return 0.0

    def requirements(self, source: Shape, batch: int, input_gradient: bool) -> Item:
        """Its requirements for one batch."""
        sizes = [(weight.size, len(weight.shape)) for weight in self.weights(source).values() if weight.is_trained]
        parameters, decayed = sum(size for size, _ in sizes), sum(size for size, axes in sizes if axes > 1)
        training = self.training_flops(source, batch, input_gradient) + update(parameters, decayed)
        return Item(
            parameters=parameters,
            decayed=decayed,
            forward=self.flops(source, batch),
            training=training,
            kept=batch * self.kept(source),
            passing=batch * self.result(source).values,
            buffers=self.buffers(source),
        )

    # Computation in torch, which is imported only here

    def operation(self, tensors: Tensors) -> Operation | None:
        """Its computation with the given tensors, which change during training; None if it passes its input on."""
        return None

    def pass_on(self, tensors: Tensors, source: Shape) -> None:
        """Set fresh tensors so that the layer passes its input on, as far as it can: a child that gained the layer then
        computes what its parent computed."""

    def passes_on(self, source: Shape) -> bool:
        """Whether the layer, with fresh tensors after `pass_on`, passes its input on to four digits: an edge all
        channels in the same size, a vertex once its statistics are those of its input."""
        return not self.label

    def take_over(self, tensors: Tensors, parent: Mapping[str, Tensor], source: Shape) -> frozenset[str]:
        """Set the tensors to what the parent's layer of the same ID held, by name, as far as it fits; return the names
        of those that hold something of it. The parent's layer may have had another shape and even another kind."""
        from genepool.layers.tensors import overlap

        held = [(name, getattr(tensors, name)) for name in self.weights(source) if name in parent]
        fitting = {name: tensor for name, tensor in held if tensor.ndim == parent[name].ndim}
        for name, tensor in fitting.items():
            overlap(tensor, parent[name])
        return frozenset(fitting)

    def narrow(self, tensors: Tensors, larger: Tensors, source: Shape, into: Kept, out: Kept) -> None:
        """Set the tensors to those of the same layer with more channels, of which its input and its value keep some."""
        from genepool.layers.tensors import narrow_tensors

        narrow_tensors(tensors, larger, self.weights(source), into, out)

    # Exported models

    def source_definition(self, source: Shape) -> str | None:
        """The module that holds its weights, as Python text; None if it needs none."""
        return None

    def source_text(self, name: str, x: str, source: Shape) -> str:
        """Its value as Python text; `self.{name}` is the module and `x` the text of the input."""
        return x if self.source_definition(source) is None else f"self.{name}({x})"

    def source_class(self) -> str | None:
        """A class that the text of the module needs, as Python text."""
        return None

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        """Add its nodes, all of whose names begin with `name`, and return the name of its value."""
        return x


class Vertex(Layer, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A rank-3 activation; its size and depth follow from the incoming edges."""

    inputs_mutable: bool = True
    """Whether mutations may change the incoming edges; likewise the outgoing edges and the vertex itself."""
    outputs_mutable: bool = True
    properties_mutable: bool = True

    def affine(self, tensors: Tensors) -> tuple[Tensor, Tensor] | None:
        """If the vertex, in validation, multiplies each channel by a number and adds another before `rectifier`: both;
        they are then folded into the edge before it."""
        return None

    def rectifier(self) -> Operation | None:
        """The function that follows `affine`. Its input is its own, so it may work in place."""
        return None


class Edge(Layer, frozen=True, kw_only=True, gc=False):
    """A connection. Of several into one vertex, the one with the highest precedence decides its depth and scale."""

    from_vertex: str
    to_vertex: str
    depth_precedence: int = BACKBONE_PRECEDENCE
    scale_precedence: int = BACKBONE_PRECEDENCE

    IS_CONVOLUTION: ClassVar[bool] = False
    """Whether it is one of the convolutions that the dashboard counts as a network's depth."""

    @property
    def arc(self) -> tuple[str, str]:
        return self.from_vertex, self.to_vertex

    @property
    def stride(self) -> int:
        """The number by which it divides height and width."""
        return 1

    @property
    def sets_depth(self) -> bool:
        """Whether a factor of its own decides the channels of its value."""
        return "depth_factor" in self.__struct_fields__

    def depth_out(self, depth_in: int) -> int:
        """The number of channels of its value."""
        return depth_in

    def group_count(self, depth_in: int) -> int:
        """The number of blocks of channels that are computed by themselves, each from a block of the input."""
        return 1

    def silence(self, tensors: Tensors, source: Shape) -> None:
        """Set fresh tensors so that the value is zero, but learns: an edge beside others then changes nothing."""
        for name, weight in list(self.weights(source).items())[-1:]:
            if weight.is_trained:
                getattr(tensors, name).zero_()

    def reading(self, tensors: Tensors, source: Shape) -> Tensor | None:
        """The numbers by which each channel of the value depends on each channel of the input: (channels of the value,
        channels of the input, ...). None if there are none, as for layers that keep channels apart."""
        return None

    def absorb(self, tensors: Tensors, kept: Tensor, lost: Tensor, shares: Tensor) -> None:
        """Make up for lost channels of the input by those that are kept, if it can: x[lost] is about shares @ x[kept]
        at each pixel."""

    def scaled(self, tensors: Tensors, scale: Tensor, shift: Tensor) -> Operation | None:
        """One operation that also multiplies each channel of the value by `scale` and adds `shift`, for validation;
        None if there is none."""
        return None


class _Kinds(Registry[type[Layer]]):
    def check(self, name: str, thing: type[Layer]) -> None:
        if not getattr(thing, "__module__", "").startswith("genepool."):
            from genepool.layers.plugins import require_kind

            require_kind(name, thing)


LAYERS: Registry[type[Layer]] = _Kinds("layer", "genepool.layers")
"""The kinds by name. One of a plugin is checked when it is registered."""


def round_half_up(value: float) -> int:
    """Round to the nearest integer; Python's `round` would round both 0.5 and 1.5 to even numbers."""
    return int(value + 0.5)
