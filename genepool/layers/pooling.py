"""The kinds `max_pool` and `average_pool`: the largest or the mean pixel of each window, by channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, round_half_up
from genepool.layers.flops import Flops, Shape
from genepool.layers.window import STRIDE_BOUNDS, Window, in_text

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors

AVERAGE = '''
def average_pool(x, size, stride, pads):
    """The mean of each window's pixels; those added around the image do not count."""
    real = functional.pad(torch.ones_like(x[:1, :1]), pads)
    return functional.avg_pool2d(functional.pad(x, pads), size, stride) / functional.avg_pool2d(real, size, stride)
'''


class Pool(Window, frozen=True, kw_only=True, gc=False):
    """A pooling. With an even size, a window has one more pixel after its centre than before it."""

    size: float = 3.0
    """Width and height of the window, which are rounded."""
    stride_scale: float = 0.0
    """The stride is 2 ** scale."""

    BOUNDS: ClassVar[Bounds] = {"size": (1.0, 1001.0), "stride_scale": STRIDE_BOUNDS}

    @property
    def window(self) -> tuple[int, int]:
        side = round_half_up(self.size)
        return side, side

    @property
    def _reduced(self) -> int:
        """Pixels per window."""
        return self.window[0] * self.window[1]

    def buffers(self, source: Shape) -> int:
        return self.padded(source)


@LAYERS.register("max_pool")
class MaxPool(Pool, frozen=True, kw_only=True, tag="max_pool", gc=False):
    """The largest value of each window.

    Differs from the paper, which has no pooling.
    """

    SYMBOL: ClassVar[str] = "MP"

    @property
    def title(self) -> str:
        return self.in_words("max pool")

    def flops(self, source: Shape, batch: int) -> Flops:
        return Flops(reduction=batch * self.result(source).values * self._reduced)

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        gradient = Flops(elementwise=batch * self.result(source).values * input_gradient)
        return self.flops(source, batch) + gradient

    def kept(self, source: Shape) -> int:
        """The places of the largest values, of 8 bytes each, and the padded input."""
        return 2 * self.result(source).values + self.padded(source)

    def operation(self, tensors: Tensors) -> Operation:
        from torch.nn.functional import max_pool2d

        size, stride = self.window, self.stride

        def pool(x: Tensor) -> Tensor:
            x, rest = self.pad(x, value=float("-inf"))
            return max_pool2d(x, size, stride, rest)

        return pool

    def source_text(self, name: str, x: str, source: Shape) -> str:
        pads = self.pads(source.height, source.width).equal or (0, 0)
        padding = f", padding={in_text(pads)}" if any(pads) else ""
        x = self.padding_text(x, source, ', value=float("-inf")')
        return f"functional.max_pool2d({x}, {in_text(self.window)}, stride={self.stride}{padding})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        return graph.node("MaxPool", [x], name, **self.window_attributes(source))


@LAYERS.register("average_pool")
class AveragePool(Pool, frozen=True, kw_only=True, tag="average_pool", gc=False):
    """The mean of the pixels of each window that lie in the image.

    Differs from the paper, which pools only before the classifier.
    """

    SYMBOL: ClassVar[str] = "AP"

    @property
    def title(self) -> str:
        return self.in_words("average pool")

    def flops(self, source: Shape, batch: int) -> Flops:
        n = batch * self.result(source).values
        return Flops(reduction=n * self._reduced, elementwise=n)

    def operation(self, tensors: Tensors) -> Operation:
        from torch.nn.functional import avg_pool2d, pad

        size, stride, even = self.window, self.stride, self.pads(1, 1).equal
        if even is not None:
            return lambda x: avg_pool2d(x, size, stride, even, count_include_pad=False)
        pads = self.pads(1, 1).for_torch

        def pool(x: Tensor) -> Tensor:
            real = pad(x.new_ones(1, 1, *x.shape[2:]), pads)
            return avg_pool2d(pad(x, pads), size, stride) / avg_pool2d(real, size, stride)

        return pool

    def source_class(self) -> str | None:
        return AVERAGE if self.pads(1, 1).equal is None else None

    def source_text(self, name: str, x: str, source: Shape) -> str:
        size, pads = in_text(self.window), self.pads(source.height, source.width)
        if pads.equal is None:
            return f"average_pool({x}, {size}, {self.stride}, {pads.for_torch})"
        padding = f", padding={in_text(pads.equal)}" if any(pads) else ""
        return f"functional.avg_pool2d({x}, {size}, stride={self.stride}{padding}, count_include_pad=False)"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        return graph.node("AveragePool", [x], name, count_include_pad=0, **self.window_attributes(source))
