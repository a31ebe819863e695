"""The kind `conv`: the paper's convolution, without bias, padded to keep the size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, Weight, round_half_up
from genepool.layers.flops import BLOCK, Flops, Shape, in_blocks
from genepool.layers.window import FILTER_BOUNDS, Filtered

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors

DEPTH_BOUNDS = (1e-6, 1e6)


@LAYERS.register("conv")
class Conv(Filtered, frozen=True, kw_only=True, tag="conv", gc=False):
    """A convolution that divides height and width by the stride, rounding up."""

    depth_factor: float = 1.0
    """Output channels divided by input channels."""
    filter_half_width: float = 1.0
    """The filter width is 2 * half + 1."""
    filter_half_height: float = 1.0
    stride_scale: float = 0.0
    """The stride is 2 ** scale."""

    SYMBOL: ClassVar[str] = "C"
    BOUNDS: ClassVar[Bounds] = {"depth_factor": DEPTH_BOUNDS, **FILTER_BOUNDS}

    @property
    def title(self) -> str:
        return self.in_words("conv")

    def depth_out(self, depth_in: int) -> int:
        return max(1, round_half_up(depth_in * self.depth_factor))

    def is_usual(self) -> bool:
        return (
            0.001 < self.depth_factor < 1000.0
            and 0.0 <= self.filter_half_width < 100.0
            and 0.0 <= self.filter_half_height < 100.0
            and 0.0 <= self.stride_scale < 9.0
            and (type(self) is Conv or super().is_usual())  # a plugin's may have fields of its own
        )

    def weights(self, source: Shape) -> dict[str, Weight]:
        size = (self.depth_out(source.channels), source.channels, self.filter_height, self.filter_width)
        return {"weight": Weight(size, "normal", fan_in=source.channels * self.filter_height * self.filter_width)}

    def flops(self, source: Shape, batch: int) -> Flops:
        out = self.result(source)
        return Flops(convolution=2 * batch * out.height * out.width * self.weights(source)["weight"].size)

    def buffers(self, source: Shape) -> int:
        out = self.result(source)
        # Channels are rounded up to the vector width, once for the filters and once for their gradient.
        reordered = 2 * (-(-source.channels // BLOCK) * BLOCK) * (-(-out.channels // BLOCK) * BLOCK)
        patches = 2 * out.height * out.width * source.channels
        return (reordered + patches) * self.filter_width * self.filter_height

    def multiplications(self, source: Shape) -> float:
        out = self.result(source)
        filters = in_blocks(source.channels) * in_blocks(out.channels) * self.filter_width * self.filter_height
        return float(out.height * out.width * filters)

    def operation(self, tensors: Tensors) -> Operation:
        from torch.nn.functional import conv2d

        stride, padding = self.stride, self.padding
        return lambda x: conv2d(x, tensors.weight, None, stride, padding)

    def scaled(self, tensors: Tensors, scale: Tensor, shift: Tensor) -> Operation:
        import torch

        stride, padding = self.stride, self.padding
        weight = (tensors.weight * scale.view(-1, 1, 1, 1)).contiguous(memory_format=torch.channels_last)
        return lambda x: torch.nn.functional.conv2d(x, weight, shift, stride, padding)

    def passes_on(self, source: Shape) -> bool:
        return self.result(source) == source

    def pass_on(self, tensors: Tensors, source: Shape) -> None:
        from genepool.layers.tensors import pass_through

        pass_through(tensors.weight)

    def take_over(self, tensors: Tensors, parent: Mapping[str, Tensor], source: Shape) -> frozenset[str]:
        """A separable or depthwise convolution becomes the filters that do the same."""
        old = parent.get("weight")
        if "pointwise" in parent and "depthwise" in parent:
            parent = {"weight": parent["pointwise"] * parent["depthwise"].movedim(0, 1)}
        elif old is not None and old.shape[:2] == (source.channels, 1) and self.weights(source)["weight"].shape[1] > 1:
            parent = {"weight": old.movedim(0, 1) * _eye(old)}
        return super().take_over(tensors, parent, source)

    def reading(self, tensors: Tensors, source: Shape) -> Tensor:
        return tensors.weight

    def absorb(self, tensors: Tensors, kept: Tensor, lost: Tensor, shares: Tensor) -> None:
        import torch

        tensors.weight[:, kept] += torch.einsum("olhw,lk->okhw", tensors.weight[:, lost], shares)

    def source_definition(self, source: Shape) -> str:
        return self.module_text(source, self.depth_out(source.channels))

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        inputs = [x, graph.weight(f"{name}.weight", tensors["weight"])]
        return graph.node("Conv", inputs, name, **self.window_attributes(source))


def _eye(like: Tensor) -> Tensor:
    import torch

    return torch.eye(len(like), dtype=like.dtype, device=like.device)[:, :, None, None]
