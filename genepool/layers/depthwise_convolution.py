"""The kind `depthwise_conv`: a convolution of each channel by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, Weight
from genepool.layers.flops import BLOCK, Flops, Shape
from genepool.layers.window import FILTER_BOUNDS, Filtered

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors


@LAYERS.register("depthwise_conv")
class DepthwiseConv(Filtered, frozen=True, kw_only=True, tag="depthwise_conv", gc=False):
    """A convolution with one filter per channel.

    Differs from the paper: its convolutions combine all channels.
    """

    filter_half_width: float = 1.0
    """The filter width is 2 * half + 1."""
    filter_half_height: float = 1.0
    stride_scale: float = 0.0
    """The stride is 2 ** scale."""
    late: bool = False
    """Whether the input is padded as TensorFlow does: no more than necessary, the smaller half first."""

    SYMBOL: ClassVar[str] = "DC"
    FAST_IN_BFLOAT16: ClassVar[bool] = False
    BOUNDS: ClassVar[Bounds] = FILTER_BOUNDS

    @property
    def pads_late(self) -> bool:
        return self.late

    @property
    def title(self) -> str:
        return self.in_words("depthwise conv")

    def weights(self, source: Shape) -> dict[str, Weight]:
        size = (source.channels, 1, *self.window)
        return {"weight": Weight(size, "normal", fan_in=self.filter_height * self.filter_width)}

    def flops(self, source: Shape, batch: int) -> Flops:
        out = self.result(source)
        return Flops(convolution=2 * batch * out.values * self.filter_height * self.filter_width)

    def kept(self, source: Shape) -> int:
        return self.padded(source)

    def buffers(self, source: Shape) -> int:
        out = self.result(source)
        reordered = 2 * (-(-source.channels // BLOCK) * BLOCK)
        return (reordered + 2 * out.values) * self.filter_height * self.filter_width

    def multiplications(self, source: Shape) -> float:
        return float(self.result(source).values * self.filter_height * self.filter_width)

    def operation(self, tensors: Tensors) -> Operation:
        convolve = self.convolution()
        return lambda x: convolve(x, tensors.weight, None)

    def scaled(self, tensors: Tensors, scale: Tensor, shift: Tensor) -> Operation:
        convolve, weight = self.convolution(), tensors.weight * scale.view(-1, 1, 1, 1)
        return lambda x: convolve(x, weight, shift)

    def passes_on(self, source: Shape) -> bool:
        return self.result(source) == source

    def pass_on(self, tensors: Tensors, source: Shape) -> None:
        from genepool.layers.tensors import pass_through

        pass_through(tensors.weight, source.channels)

    def take_over(self, tensors: Tensors, parent: Mapping[str, Tensor], source: Shape) -> frozenset[str]:
        """Each channel takes only its own of filters for all channels."""
        from genepool.layers.tensors import overlap

        old = parent.get("weight")
        if old is None or old.ndim != 4:
            return frozenset()
        if old.shape[1] == source.channels > 1:
            both = min(old.shape[0], source.channels)
            old = old[range(both), range(both)][:, None]
        elif old.shape[1] > 1:
            return frozenset()
        overlap(tensors.weight, old)
        return frozenset({"weight"})

    def source_definition(self, source: Shape) -> str:
        return self.module_text(source, source.channels, source.channels)

    def source_text(self, name: str, x: str, source: Shape) -> str:
        return f"self.{name}({self.padding_text(x, source)})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        inputs = [x, graph.weight(f"{name}.weight", tensors["weight"])]
        return graph.node("Conv", inputs, name, group=source.channels, **self.window_attributes(source))
