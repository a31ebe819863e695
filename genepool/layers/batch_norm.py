"""Batch normalisation, alone or with a rectifier after it: the base of all vertices that normalise, and the paper's
kind `bn_relu`. The moving averages for validation have the decay 0.9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, Vertex, Weight
from genepool.layers.flops import Flops, Shape

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors

DECAY = 0.9
EPSILON = 0.001
PARTS = ("weight", "bias", "running_mean", "running_var")


class Normalisation(Vertex, frozen=True, kw_only=True, gc=False):
    """Batch normalisation, then an element-wise function: the kinds differ in the function. It may work in place,
    because the gradient of batch normalisation only needs its input."""

    NAME: ClassVar[str] = "norm"

    @property
    def rectifier_flops(self) -> int:
        """Operations per value of the function after the normalisation."""
        return 0

    def weights(self, source: Shape) -> dict[str, Weight]:
        size = (source.channels,)
        return {
            "weight": Weight(size, "ones"),
            "bias": Weight(size),
            "running_mean": Weight(size, is_trained=False),
            "running_var": Weight(size, "ones", is_trained=False),
        }

    def flops(self, source: Shape, batch: int) -> Flops:
        n = batch * source.values
        return Flops(elementwise=2 * n + 4 * source.channels + self.rectifier_flops * n)

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        n = batch * source.values
        forward = Flops(elementwise=3 * n + 11 * source.channels + self.rectifier_flops * n, reduction=2 * n)
        return forward + Flops(elementwise=7 * n + n * bool(self.rectifier_flops), reduction=2 * n)

    def kept(self, source: Shape) -> int:
        return source.values

    def operation(self, tensors: Tensors) -> Operation:
        from torch.nn.functional import batch_norm

        rectify = self.rectifier()

        def normalise(x: Tensor) -> Tensor:
            statistics = (tensors.running_mean, tensors.running_var)
            return batch_norm(x, *statistics, tensors.weight, tensors.bias, tensors.training, 1 - DECAY, EPSILON)

        return normalise if rectify is None else lambda x: rectify(normalise(x))

    def affine(self, tensors: Tensors) -> tuple[Tensor, Tensor]:
        """In validation, normalisation multiplies each channel by a number and adds another: return both."""
        import torch

        scale = tensors.weight * torch.rsqrt(tensors.running_var + EPSILON)
        return scale, tensors.bias - tensors.running_mean * scale

    def source_definition(self, source: Shape) -> str:
        return f"nn.BatchNorm2d({source.channels}, eps={EPSILON})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        inputs = [x, *(graph.weight(f"{name}.{part}", tensors[part]) for part in PARTS)]
        return graph.node("BatchNormalization", inputs, name, epsilon=EPSILON)


@LAYERS.register("bn_relu")
class BatchNormRelu(Normalisation, frozen=True, kw_only=True, tag="bn_relu", gc=False):
    """Batch normalisation and a rectifier."""

    leakiness: float = 0.0
    """The slope of the rectifier below zero."""

    SYMBOL: ClassVar[str] = "BN+R"
    BOUNDS: ClassVar[Bounds] = {"leakiness": (0.0, 1.0)}

    @property
    def title(self) -> str:
        return "BN leaky ReLU" if self.leakiness else "BN ReLU"

    @property
    def rectifier_flops(self) -> int:
        return 1 if self.leakiness == 0 else 2

    def is_usual(self) -> bool:
        return 0.0 <= self.leakiness <= 1.0 and (type(self) is BatchNormRelu or super().is_usual())

    def rectifier(self) -> Operation:
        from torch.nn.functional import leaky_relu_, relu_

        slope = self.leakiness
        return relu_ if slope == 0 else lambda y: leaky_relu_(y, slope)

    def source_text(self, name: str, x: str, source: Shape) -> str:
        normalised = f"self.{name}({x})"
        if self.leakiness:
            return f"functional.leaky_relu({normalised}, {self.leakiness!r})"
        return f"functional.relu({normalised})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        x = super().onnx(graph, x, name, tensors, source)
        if self.leakiness:
            return graph.node("LeakyRelu", [x], f"{name}.relu", alpha=self.leakiness)
        return graph.node("Relu", [x], f"{name}.relu")
