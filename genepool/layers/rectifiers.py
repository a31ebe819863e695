"""Element-wise functions, as vertices of their own (`relu`, `relu6`, `silu`, `gelu`, `hard_swish`) and for the vertices
that apply one after batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from genepool.layers.base import LAYERS, Graph, Operation, Vertex
from genepool.layers.flops import Flops, Shape

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors


class Rectifier(NamedTuple):
    """An element-wise function."""

    name: str
    """Its name in `torch.nn.functional`."""
    symbol: str
    title: str
    flops: int
    """Operations per value."""
    onnx: Callable[[Graph, str, str], str]
    """Adds its nodes to a graph: from the graph, the input and the name of the last node."""
    from_value: bool = False
    """Whether its gradient needs only its value, so that it may overwrite its input."""
    keeps_input: bool = True
    """Whether its input is kept for the gradient unless it is overwritten."""

    def torch(self, in_place: bool = False) -> Operation:
        from torch.nn import functional

        function: Callable[..., Tensor] = getattr(functional, self.name)
        return (lambda x: function(x, inplace=True)) if in_place and self.from_value else function


def _single(kind: str) -> Callable[[Graph, str, str], str]:
    return lambda graph, x, name: graph.node(kind, [x], name)


def _number(graph: Graph, name: str, value: float) -> str:
    import numpy as np

    return graph.weight(name, np.array(value, dtype=np.float32))


def _relu6(graph: Graph, x: str, name: str) -> str:
    bounds = [_number(graph, f"{name}.low", 0.0), _number(graph, f"{name}.high", 6.0)]
    return graph.node("Clip", [x, *bounds], name)


def _silu(graph: Graph, x: str, name: str) -> str:
    return graph.node("Mul", [x, graph.node("Sigmoid", [x], f"{name}.gate")], name)


def _gelu(graph: Graph, x: str, name: str) -> str:
    """x / 2 (1 + erf(x / sqrt 2)): ONNX has an operator for it only in versions that are newer than ours."""
    inner = graph.node("Mul", [x, _number(graph, f"{name}.scale", math.sqrt(0.5))], f"{name}.scaled")
    erf = graph.node("Erf", [inner], f"{name}.erf")
    gate = graph.node("Add", [erf, _number(graph, f"{name}.one", 1.0)], f"{name}.gate")
    half = graph.node("Mul", [x, _number(graph, f"{name}.half", 0.5)], f"{name}.halved")
    return graph.node("Mul", [half, gate], name)


RELU = Rectifier("relu", "R", "ReLU", 1, _single("Relu"), from_value=True, keeps_input=False)
RELU6 = Rectifier("relu6", "R6", "ReLU6", 2, _relu6, from_value=True)
SILU = Rectifier("silu", "S", "SiLU", 2, _silu)
GELU = Rectifier("gelu", "G", "GELU", 2, _gelu)
HARD_SWISH = Rectifier("hardswish", "HS", "hard swish", 3, _single("HardSwish"))


class Activation(Vertex, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A vertex that applies a function and nothing else. It never works in place, because an identity may have made its
    input the value of another vertex, or the images themselves."""

    FUNCTION: ClassVar[Rectifier] = RELU

    @property
    def symbol(self) -> str:
        return self.FUNCTION.symbol

    @property
    def title(self) -> str:
        return self.FUNCTION.title

    def flops(self, source: Shape, batch: int) -> Flops:
        return Flops(elementwise=self.FUNCTION.flops * batch * source.values)

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        return self.flops(source, batch) + Flops(elementwise=batch * source.values * input_gradient)

    def kept(self, source: Shape) -> int:
        return source.values if self.FUNCTION.keeps_input else 0

    def operation(self, tensors: Tensors) -> Operation:
        return self.FUNCTION.torch()

    def source_text(self, name: str, x: str, source: Shape) -> str:
        return f"functional.{self.FUNCTION.name}({x})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        return self.FUNCTION.onnx(graph, x, name)


@LAYERS.register("relu")
class Relu(Activation, frozen=True, kw_only=True, tag="relu", gc=False):
    """The larger of x and 0.

    Differs from the paper, which rectifies only after batch normalisation.
    """


@LAYERS.register("relu6")
class Relu6(Activation, frozen=True, kw_only=True, tag="relu6", gc=False):
    """x, but at least 0 and at most 6.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = RELU6


@LAYERS.register("silu")
class Silu(Activation, frozen=True, kw_only=True, tag="silu", gc=False):
    """x times its logistic function, also known as swish.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = SILU


@LAYERS.register("gelu")
class Gelu(Activation, frozen=True, kw_only=True, tag="gelu", gc=False):
    """x times the normal distribution function of x, exactly.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = GELU


@LAYERS.register("hard_swish")
class HardSwish(Activation, frozen=True, kw_only=True, tag="hard_swish", gc=False):
    """x times (x + 3) / 6, the factor being at least 0 and at most 1.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = HARD_SWISH
