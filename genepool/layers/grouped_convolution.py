"""The kind `grouped_conv`: a convolution whose channels are divided into groups."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import TYPE_CHECKING, ClassVar

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, Weight, round_half_up
from genepool.layers.convolution import Conv
from genepool.layers.flops import BLOCK, Shape, in_blocks

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Kept, Tensors


@LAYERS.register("grouped_conv")
class GroupedConv(Conv, frozen=True, kw_only=True, tag="grouped_conv", gc=False):
    """A convolution in which each group of output channels sees only its own group of input channels.

    Differs from the paper: its convolutions have one group.
    """

    groups: float = 1.0
    """The number of groups is the largest that divides this number and the channels before and after."""
    late: bool = False
    """Whether the input is padded as TensorFlow does: no more than necessary, the smaller half first."""

    SYMBOL: ClassVar[str] = "GC"
    BOUNDS: ClassVar[Bounds] = {**Conv.BOUNDS, "groups": (1.0, 1e6)}

    @property
    def pads_late(self) -> bool:
        return self.late

    @property
    def label(self) -> str:
        groups = round_half_up(self.groups)
        return super().label + (f"g{groups}" if groups > 1 else "")

    @property
    def title(self) -> str:
        groups = round_half_up(self.groups)
        return self.in_words("grouped conv") + (f", {groups} groups" if groups > 1 else "")

    def is_usual(self) -> bool:
        return super().is_usual() and 1.0 <= self.groups <= 1e6

    def group_count(self, depth_in: int) -> int:
        return gcd(round_half_up(self.groups), depth_in, self.depth_out(depth_in))

    def weights(self, source: Shape) -> dict[str, Weight]:
        seen = source.channels // self.group_count(source.channels)
        size = (self.depth_out(source.channels), seen, *self.window)
        return {"weight": Weight(size, "normal", fan_in=seen * self.filter_height * self.filter_width)}

    def kept(self, source: Shape) -> int:
        return self.padded(source)

    def buffers(self, source: Shape) -> int:
        out, groups = self.result(source), self.group_count(source.channels)
        seen, made = (-(-channels // groups // BLOCK) * BLOCK for channels in (source.channels, out.channels))
        patches = 2 * out.height * out.width * source.channels
        return (2 * groups * seen * made + patches) * self.filter_width * self.filter_height

    def multiplications(self, source: Shape) -> float:
        out, groups = self.result(source), self.group_count(source.channels)
        filters = groups * in_blocks(source.channels // groups) * in_blocks(out.channels // groups)
        return float(out.height * out.width * filters * self.filter_width * self.filter_height)

    def operation(self, tensors: Tensors) -> Operation:
        convolve = self.convolution()
        return lambda x: convolve(x, tensors.weight, None)

    def scaled(self, tensors: Tensors, scale: Tensor, shift: Tensor) -> Operation:
        convolve, weight = self.convolution(), tensors.weight * scale.view(-1, 1, 1, 1)
        return lambda x: convolve(x, weight, shift)

    def pass_on(self, tensors: Tensors, source: Shape) -> None:
        from genepool.layers.tensors import pass_through

        pass_through(tensors.weight, self.group_count(source.channels))

    def take_over(self, tensors: Tensors, parent: Mapping[str, Tensor], source: Shape) -> frozenset[str]:
        """Filters between two channels stay theirs if the channels are in one group now."""
        from genepool.layers.tensors import overlap, overlap_groups

        new, old = tensors.weight, parent.get("weight")
        if old is None or old.ndim != 4:
            return frozenset()
        groups, before = self.group_count(source.channels), self._groups_of(old, source.channels)
        overlap(new, old) if groups == before == 1 else overlap_groups(new, old, groups, before)
        return frozenset({"weight"})

    def _groups_of(self, old: Tensor, channels: int) -> int:
        """The number of groups of the parent's filters, which do not show it. With as many outputs as now, the groups
        were changed, or nothing; else the channels were, and the number in this layer's DNA was the parent's too."""
        out, seen = old.shape[:2]
        most = gcd(round_half_up(self.groups), out)
        unchanged, rest = divmod(channels, seen)
        if rest or out % unchanged:
            return most
        is_consistent = most % unchanged == 0 and gcd(most // unchanged, seen) == 1
        return unchanged if is_consistent or out == self.depth_out(channels) else most

    def narrow(self, tensors: Tensors, larger: Tensors, source: Shape, into: Kept, out: Kept) -> None:
        from genepool.layers.tensors import regrouped

        groups = (into.before // larger.weight.shape[1], self.group_count(source.channels))
        numbers = (kept.numbers.to(larger.weight.device) for kept in (into, out))
        tensors.weight.copy_(regrouped(larger.weight, groups, *numbers))

    def reading(self, tensors: Tensors, source: Shape) -> Tensor:
        import torch

        from genepool.layers.tensors import regrouped

        numbers = (
            torch.arange(length, device=tensors.weight.device) for length in (source.channels, len(tensors.weight))
        )
        return regrouped(tensors.weight, (self.group_count(source.channels), 1), *numbers)

    def absorb(self, tensors: Tensors, kept: Tensor, lost: Tensor, shares: Tensor) -> None:
        if tensors.weight.shape[1] == len(kept) + len(lost):
            super().absorb(tensors, kept, lost, shares)

    def source_definition(self, source: Shape) -> str:
        return self.module_text(source, self.depth_out(source.channels), self.group_count(source.channels))

    def source_text(self, name: str, x: str, source: Shape) -> str:
        return f"self.{name}({self.padding_text(x, source)})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        inputs, groups = [x, graph.weight(f"{name}.weight", tensors["weight"])], self.group_count(source.channels)
        return graph.node("Conv", inputs, name, group=groups, **self.window_attributes(source))
