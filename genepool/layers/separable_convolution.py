"""The kind `separable_conv`: a convolution of each channel by itself, then one of all channels at each pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, Weight, round_half_up
from genepool.layers.convolution import DEPTH_BOUNDS
from genepool.layers.flops import BLOCK, Flops, Shape, in_blocks
from genepool.layers.window import FILTER_BOUNDS, Filtered, in_text

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors

CLASS = '''
class SeparableConv(nn.Module):
    """A convolution of each channel by itself, then one of all channels at each pixel."""

    def __init__(self, channels, out, size, stride, padding):
        super().__init__()
        self.depthwise = nn.Parameter(torch.empty(channels, 1, *size))
        self.pointwise = nn.Parameter(torch.empty(out, channels, 1, 1))
        self.stride, self.padding = stride, padding

    def forward(self, x):
        x = functional.conv2d(x, self.depthwise, None, self.stride, self.padding, groups=len(self.depthwise))
        return functional.conv2d(x, self.pointwise)
'''


@LAYERS.register("separable_conv")
class SeparableConv(Filtered, frozen=True, kw_only=True, tag="separable_conv", gc=False):
    """A depthwise convolution with the stride, then a 1x1 convolution that makes the output channels.

    Differs from the paper: its convolutions have filters of all input channels.
    """

    depth_factor: float = 1.0
    """Output channels divided by input channels."""
    filter_half_width: float = 1.0
    """The filter width is 2 * half + 1."""
    filter_half_height: float = 1.0
    stride_scale: float = 0.0
    """The stride is 2 ** scale."""

    SYMBOL: ClassVar[str] = "SC"
    FAST_IN_BFLOAT16: ClassVar[bool] = False
    BOUNDS: ClassVar[Bounds] = {"depth_factor": DEPTH_BOUNDS, **FILTER_BOUNDS}

    @property
    def title(self) -> str:
        return self.in_words("separable conv")

    def depth_out(self, depth_in: int) -> int:
        return max(1, round_half_up(depth_in * self.depth_factor))

    def between(self, source: Shape) -> Shape:
        """The shape between the two convolutions."""
        return self.result(source)._replace(channels=source.channels)

    def weights(self, source: Shape) -> dict[str, Weight]:
        area, out = self.filter_height * self.filter_width, self.depth_out(source.channels)
        # The factor 2 in the variance makes up for a rectifier before a convolution; there is none between the two.
        depthwise = Weight((source.channels, 1, *self.window), "normal", fan_in=2 * area, axes=("in",))
        pointwise = Weight((out, source.channels, 1, 1), "normal", fan_in=source.channels, axes=("out", "in"))
        return {"depthwise": depthwise, "pointwise": pointwise}

    def flops(self, source: Shape, batch: int) -> Flops:
        first, second = self._parts(source, batch)
        return Flops(convolution=first + second)

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        first, second = self._parts(source, batch)
        return Flops(convolution=(2 + input_gradient) * first + 3 * second)

    def _parts(self, source: Shape, batch: int) -> tuple[int, int]:
        """FLOPs of the two convolutions."""
        between, area = self.between(source), self.filter_height * self.filter_width
        return 2 * batch * between.values * area, 2 * batch * between.values * self.depth_out(source.channels)

    def kept(self, source: Shape) -> int:
        return self.between(source).values

    def buffers(self, source: Shape) -> int:
        between, out = self.between(source), self.depth_out(source.channels)
        area, into = self.filter_height * self.filter_width, -(-source.channels // BLOCK) * BLOCK
        return 2 * (into + between.values) * area + 2 * into * (-(-out // BLOCK) * BLOCK) + 2 * between.values

    def multiplications(self, source: Shape) -> float:
        between, out = self.between(source), self.depth_out(source.channels)
        pointwise = between.height * between.width * in_blocks(source.channels) * in_blocks(out)
        return float(between.values * self.filter_height * self.filter_width + pointwise)

    def operation(self, tensors: Tensors) -> Operation:
        from torch.nn.functional import conv2d

        convolve = self.convolution()
        return lambda x: conv2d(convolve(x, tensors.depthwise, None), tensors.pointwise)

    def scaled(self, tensors: Tensors, scale: Tensor, shift: Tensor) -> Operation:
        from torch.nn.functional import conv2d

        convolve, pointwise = self.convolution(), tensors.pointwise * scale.view(-1, 1, 1, 1)
        return lambda x: conv2d(convolve(x, tensors.depthwise, None), pointwise, shift)

    def passes_on(self, source: Shape) -> bool:
        return self.result(source) == source

    def pass_on(self, tensors: Tensors, source: Shape) -> None:
        from genepool.layers.tensors import pass_through

        pass_through(tensors.depthwise, source.channels)
        pass_through(tensors.pointwise)

    def take_over(self, tensors: Tensors, parent: Mapping[str, Tensor], source: Shape) -> frozenset[str]:
        """A convolution's filters are replaced by the closest ones that can be separated; a depthwise convolution's
        are followed by the identity."""
        import torch

        from genepool.layers.tensors import overlap

        old = parent.get("weight")
        if old is not None and old.shape[:2] == (source.channels, 1):
            pointwise = torch.eye(source.channels, dtype=old.dtype, device=old.device)[:, :, None, None]
            return super().take_over(tensors, {"depthwise": old, "pointwise": pointwise}, source)
        if old is None or old.ndim != 4 or old.shape[1] != source.channels:
            return super().take_over(tensors, parent, source)
        known = old.new_zeros(old.shape[0], source.channels, *self.window)
        overlap(known, old)
        made, strength, filters = torch.linalg.svd(known.flatten(2).transpose(0, 1), full_matrices=False)
        root = strength[:, 0].sqrt()  # (channels in); the best approximation of rank 1 for each of them
        tensors.depthwise.copy_((filters[:, 0] * root[:, None]).view_as(tensors.depthwise))
        overlap(tensors.pointwise, (made[:, :, 0] * root[:, None]).T[:, :, None, None])
        return frozenset({"depthwise", "pointwise"})

    def reading(self, tensors: Tensors, source: Shape) -> Tensor:
        return tensors.pointwise[:, :, 0, 0, None, None] * tensors.depthwise[:, 0]

    def source_class(self) -> str:
        return CLASS

    def source_definition(self, source: Shape) -> str:
        channels = f"{source.channels}, {self.depth_out(source.channels)}"
        return f"SeparableConv({channels}, {self.window}, {self.stride}, {in_text(self.padding)})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        depthwise, pointwise = (graph.weight(f"{name}.{part}", tensors[part]) for part in ("depthwise", "pointwise"))
        attributes = self.window_attributes(source)
        x = graph.node("Conv", [x, depthwise], f"{name}.each", group=source.channels, **attributes)
        return graph.node("Conv", [x, pointwise], name, kernel_shape=[1, 1])
