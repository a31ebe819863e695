"""Edges that slide a window over their input: the base of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from genepool.errors import ModelTooLargeError
from genepool.layers.base import Bounds, Edge, round_half_up
from genepool.layers.flops import Shape

if TYPE_CHECKING:
    from torch import Tensor

MAX_CHANNELS = 1_000_000
STRIDE_BOUNDS = (0.0, 16.0)
FILTER_BOUNDS: Bounds = {
    "filter_half_width": (0.0, 500.0),
    "filter_half_height": (0.0, 500.0),
    "stride_scale": STRIDE_BOUNDS,
}


class Pads(NamedTuple):
    """The rows and columns added around an image."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def equal(self) -> tuple[int, int] | None:
        """The rows and columns on each side if opposite sides have as many, which torch's operations can add."""
        return (self.top, self.left) if self.top == self.bottom and self.left == self.right else None

    @property
    def for_torch(self) -> tuple[int, int, int, int]:
        """In the order of `torch.nn.functional.pad`."""
        return self.left, self.right, self.top, self.bottom

    @property
    def for_onnx(self) -> list[int]:
        return [self.top, self.left, self.bottom, self.right]


class Window(Edge, frozen=True, kw_only=True, gc=False):
    """An edge with a window at every `stride` pixels. Its input is padded so that n pixels become ceil(n / stride)."""

    if TYPE_CHECKING:  # the kinds have the fields, in the order in which files show them
        stride_scale: float

    @property
    def window(self) -> tuple[int, int]:
        """Its height and width."""
        raise NotImplementedError

    @property
    def stride(self) -> int:
        return 1 << round_half_up(self.stride_scale)

    @property
    def pads_late(self) -> bool:
        """Whether it pads as TensorFlow does: no more than necessary, the smaller half first."""
        return False

    @property
    def label(self) -> str:
        height, width = self.window
        return f"{self.symbol}{width}x{height}" + (f"/{self.stride}" if self.stride > 1 else "")

    def in_words(self, kind: str) -> str:
        height, width = self.window
        return f"{kind} {width}x{height}" + (f" /{self.stride}" if self.stride > 1 else "")

    def result(self, source: Shape) -> Shape:
        channels = self.depth_out(source.channels)
        if channels > MAX_CHANNELS:
            raise ModelTooLargeError(f"edge '{self.id}' has {channels} channels, more than {MAX_CHANNELS}.")
        return Shape(-(-source.height // self.stride), -(-source.width // self.stride), channels)

    def pads(self, height: int, width: int) -> Pads:
        """The padding of an image of that size. The first windows are centred on the first pixels unless it is late."""
        halves: list[int] = []
        for pixels, size in zip((height, width), self.window, strict=True):
            needed = (-(-pixels // self.stride) - 1) * self.stride + size - pixels
            total = max(needed, 0) if self.pads_late else size - 1
            halves += (total // 2, total - total // 2)
        return Pads(*halves)

    def padded(self, source: Shape) -> int:
        """Values of an input that is padded before the operation; 0 if the operation itself pads."""
        pads = self.pads(source.height, source.width)
        height, width = source.height + pads.top + pads.bottom, source.width + pads.left + pads.right
        return 0 if pads.equal is not None else height * width * source.channels

    def pad(self, x: Tensor, value: float = 0.0) -> tuple[Tensor, tuple[int, int]]:
        """Return the input, padded if opposite sides need different padding, and the padding left to the operation."""
        from torch.nn.functional import pad

        pads = self.pads(x.shape[2], x.shape[3])
        return (x, pads.equal) if pads.equal is not None else (pad(x, pads.for_torch, value=value), (0, 0))

    def padding_text(self, x: str, source: Shape, value: str = "") -> str:
        """The text of the input, padded if opposite sides need different padding."""
        pads = self.pads(source.height, source.width)
        return x if pads.equal is not None else f"functional.pad({x}, {pads.for_torch}{value})"

    def window_attributes(self, source: Shape) -> dict[str, list[int]]:
        """The attributes of its ONNX node."""
        pads = self.pads(source.height, source.width).for_onnx
        return {"kernel_shape": list(self.window), "strides": [self.stride] * 2, "pads": pads}


class Filtered(Window, frozen=True, kw_only=True, gc=False):
    """An edge with filters of odd width and height. The numbers are floats and rounded only when shapes are computed,
    so that small mutations add up.
    """

    if TYPE_CHECKING:
        filter_half_width: float
        filter_half_height: float

    IS_CONVOLUTION: ClassVar[bool] = True

    @property
    def filter_width(self) -> int:
        """It is 2 * half + 1."""
        return 2 * round_half_up(self.filter_half_width) + 1

    @property
    def filter_height(self) -> int:
        return 2 * round_half_up(self.filter_half_height) + 1

    @property
    def window(self) -> tuple[int, int]:
        return self.filter_height, self.filter_width

    @property
    def padding(self) -> tuple[int, int]:
        """Rows and columns on each side unless it pads late."""
        return self.filter_height // 2, self.filter_width // 2

    def convolution(self) -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
        """Return the convolution of an input with filters and a bias; their shapes give the number of groups."""
        from torch.nn.functional import conv2d

        stride, padding = self.stride, self.padding

        def early(x: Tensor, filters: Tensor, bias: Tensor | None) -> Tensor:
            return conv2d(x, filters, bias, stride, padding, 1, x.shape[1] // filters.shape[1])

        def late(x: Tensor, filters: Tensor, bias: Tensor | None) -> Tensor:
            x, rest = self.pad(x)
            return conv2d(x, filters, bias, stride, rest, 1, x.shape[1] // filters.shape[1])

        return late if self.pads_late else early

    def module_text(self, source: Shape, out: int, groups: int = 1) -> str:
        """The torch module of one convolution without bias."""
        pads = self.pads(source.height, source.width).equal or (0, 0)
        stride = f", stride={self.stride}" if self.stride > 1 else ""
        padding = f", padding={in_text(pads)}" if any(pads) else ""
        grouped = f", groups={groups}" if groups > 1 else ""
        size = f"{source.channels}, {out}, {in_text(self.window)}"
        return f"nn.Conv2d({size}{stride}{padding}{grouped}, bias=False)"


def in_text(numbers: tuple[int, int]) -> str:
    return str(numbers[0]) if numbers[0] == numbers[1] else str(numbers)
