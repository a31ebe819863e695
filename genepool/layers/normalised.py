"""The kinds `bn`, `bn_relu6`, `bn_silu`, `bn_gelu` and `bn_hard_swish`: batch normalisation, alone or with a function
after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Graph, Operation
from genepool.layers.batch_norm import Normalisation
from genepool.layers.flops import Shape
from genepool.layers.rectifiers import GELU, HARD_SWISH, RELU6, SILU, Rectifier

if TYPE_CHECKING:
    from torch import Tensor


@LAYERS.register("bn")
class BatchNorm(Normalisation, frozen=True, kw_only=True, tag="bn", gc=False):
    """Batch normalisation alone.

    Differs from the paper, which always rectifies after it.
    """

    SYMBOL: ClassVar[str] = "BN"

    @property
    def title(self) -> str:
        return "BN"

    def passes_on(self, source: Shape) -> bool:
        return True


class NormalisedActivation(Normalisation, frozen=True, kw_only=True, gc=False):
    """Batch normalisation and a function that the kinds choose."""

    FUNCTION: ClassVar[Rectifier] = RELU6

    @property
    def symbol(self) -> str:
        return f"BN+{self.FUNCTION.symbol}"

    @property
    def title(self) -> str:
        return f"BN {self.FUNCTION.title}"

    @property
    def rectifier_flops(self) -> int:
        return self.FUNCTION.flops

    def rectifier(self) -> Operation:
        return self.FUNCTION.torch(in_place=True)

    def kept(self, source: Shape) -> int:
        return source.values if self.FUNCTION.from_value else 2 * source.values

    def source_text(self, name: str, x: str, source: Shape) -> str:
        return f"functional.{self.FUNCTION.name}(self.{name}({x}))"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        return self.FUNCTION.onnx(graph, super().onnx(graph, x, name, tensors, source), f"{name}.{self.FUNCTION.name}")


@LAYERS.register("bn_relu6")
class BatchNormRelu6(NormalisedActivation, frozen=True, kw_only=True, tag="bn_relu6", gc=False):
    """Batch normalisation, then a rectifier that stops at 6.

    Differs from the paper, whose rectifiers have no upper bound.
    """


@LAYERS.register("bn_silu")
class BatchNormSilu(NormalisedActivation, frozen=True, kw_only=True, tag="bn_silu", gc=False):
    """Batch normalisation, then x times its logistic function.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = SILU


@LAYERS.register("bn_gelu")
class BatchNormGelu(NormalisedActivation, frozen=True, kw_only=True, tag="bn_gelu", gc=False):
    """Batch normalisation, then x times the normal distribution function of x.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = GELU


@LAYERS.register("bn_hard_swish")
class BatchNormHardSwish(NormalisedActivation, frozen=True, kw_only=True, tag="bn_hard_swish", gc=False):
    """Batch normalisation, then x times (x + 3) / 6, the factor being at least 0 and at most 1.

    Differs from the paper, which has no such function.
    """

    FUNCTION: ClassVar[Rectifier] = HARD_SWISH
