"""The kind `affine`: a number by which each channel is multiplied and one that is added, both trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Graph, Operation, Vertex, Weight
from genepool.layers.flops import Flops, Shape

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors

CLASS = '''
class Affine(nn.Module):
    """Multiply each channel by a number and add another."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return x * self.weight.view(-1, 1, 1) + self.bias.view(-1, 1, 1)
'''


@LAYERS.register("affine")
class Affine(Vertex, frozen=True, kw_only=True, tag="affine", omit_defaults=True, gc=False):
    """Batch normalisation without statistics: what remains of it, and of a convolution's bias, in trained networks.

    Differs from the paper, whose layers have no bias without normalisation.
    """

    SYMBOL: ClassVar[str] = "A"

    def weights(self, source: Shape) -> dict[str, Weight]:
        return {"weight": Weight((source.channels,), "ones"), "bias": Weight((source.channels,))}

    def flops(self, source: Shape, batch: int) -> Flops:
        return Flops(elementwise=2 * batch * source.values)

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        n = batch * source.values
        return self.flops(source, batch) + Flops(elementwise=n + n * input_gradient, reduction=2 * n)

    def kept(self, source: Shape) -> int:
        return source.values

    def affine(self, tensors: Tensors) -> tuple[Tensor, Tensor]:
        return tensors.weight, tensors.bias

    def passes_on(self, source: Shape) -> bool:
        return True

    def operation(self, tensors: Tensors) -> Operation:
        return lambda x: x * tensors.weight.view(-1, 1, 1) + tensors.bias.view(-1, 1, 1)

    def source_class(self) -> str:
        return CLASS

    def source_definition(self, source: Shape) -> str:
        return f"Affine({source.channels})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        import numpy as np

        axes = graph.weight(f"{name}.axes", np.array([1, 2]))
        parts = [graph.weight(f"{name}.{part}", tensors[part]) for part in ("weight", "bias")]
        weight, bias = (graph.node("Unsqueeze", [part, axes], f"{part}.each") for part in parts)
        return graph.node("Add", [graph.node("Mul", [x, weight], f"{name}.scaled"), bias], name)
