"""The images that a network from elsewhere takes: their shape, their layout and their normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from genepool.dna import Shape
from genepool.errors import DataError
from genepool.export.foreign.editor import Editor, by_axis
from genepool.export.foreign.graph import Node

CHANNELS = (1, 3)
MAX_STEPS = 20  # before the first layer
LEAST_UNIT_SCALE = 0.1  # deviations on the scale 0..1 are well below 10, on the scale 0..255 well above
USUAL_SIZE = 224
BATCH = 2  # of networks that take batches of any size


def batch_shape(sizes: Sequence[int | None], image: Shape | None) -> tuple[int, int, int, int]:
    """The shape of a batch; None stands for a size that the file leaves open: `image` has it, or it is 224."""
    if len(sizes) != 4:
        raise DataError("its input is not a batch of images, which has four dimensions.")
    if any(size is not None and size < 1 for size in sizes[1:]):
        raise DataError(f"its input has the shape {tuple(sizes)}, which is not a batch of images.")
    batch = sizes[0] if sizes[0] is not None and sizes[0] >= 1 else BATCH
    if batch > 1024:
        raise DataError(f"it takes batches of {batch} images only; export it with a smaller batch.")
    last = sizes[3] in CHANNELS and sizes[1] not in CHANNELS
    if image is not None:
        wanted = (image.height, image.width, image.channels)
        order = wanted if last else (wanted[2], *wanted[:2])
        if any(size is not None and size != new for size, new in zip(sizes[1:], order, strict=True)):
            raise DataError(f"it takes images of the shape {tuple(sizes[1:])}, not {'x'.join(map(str, wanted))}.")
        return (batch, *order)
    usual = (USUAL_SIZE, USUAL_SIZE, 3) if last else (3, USUAL_SIZE, USUAL_SIZE)
    first, second, third = (size if size is not None else n for size, n in zip(sizes[1:], usual, strict=True))
    return batch, first, second, third


def is_channels_last(shape: Sequence[int]) -> bool:
    return shape[3] in CHANNELS and shape[1] not in CHANNELS


class Normalisation(NamedTuple):
    """What a network does to images before its first layer: multiply each channel and add a number."""

    scale: Tensor
    shift: Tensor
    is_channels_last: bool
    is_bytes: bool
    is_known: bool
    """Whether the network contains it; otherwise it takes images that are normalised already."""

    def of(self, images: Tensor) -> Tensor:
        """Normalised images, channels first, from those that the network takes."""
        x = images.permute(0, 3, 1, 2) if self.is_channels_last else images
        return (x.double() * self.scale.view(-1, 1, 1) + self.shift.view(-1, 1, 1)).float()

    @property
    def unit(self) -> float:
        """What the network takes for white: 255 or 1. Means and deviations of photographs tell which."""
        return 255.0 if self.is_bytes or float(self.scale.abs().max()) < LEAST_UNIT_SCALE else 1.0

    @property
    def mean(self) -> tuple[float, ...] | None:
        return tuple((-self.shift / self.scale / self.unit).tolist()) if self.is_known else None

    @property
    def std(self) -> tuple[float, ...] | None:
        return tuple((1 / self.scale / self.unit).tolist()) if self.is_known else None


def split_images(editor: Editor, is_bytes: bool) -> Normalisation:
    """Take the normalisation off the beginning of a graph, whose input is then normalised and channels first."""
    shape, value = editor.shapes[editor.input], editor.input
    last = is_channels_last(shape)
    axis = 3 if last else 1
    scale, shift = (torch.full((shape[axis],), number, dtype=torch.float64) for number in (1.0, 0.0))
    is_known = is_bytes
    for _ in range(MAX_STEPS):
        if len(users := editor.users(value)) != 1:
            break
        [node] = users
        if node.operator == "transpose" and list(node.fields["order"]) == [0, 3, 1, 2] and axis == 3:
            axis = 1
        elif node.operator in ("add", "sub", "mul", "div"):
            changed = _changed(editor, node, axis, scale, shift)
            if changed is None:
                break
            (scale, shift), is_known = changed, True
        elif node.operator not in ("cast", "identity"):
            break
        value = node.output
    if axis != 1:
        raise DataError("it works on images whose channels come last, but Genepool's layers take them first.")
    if not bool((scale > 0).all()):
        raise DataError("its normalisation of images multiplies by numbers that are not positive.")
    editor.start_at(value)
    return Normalisation(scale, shift, last, is_bytes, is_known)


def _changed(editor: Editor, node: Node, axis: int, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor] | None:
    """The normalisation with one more step; None if the step is none."""
    found = editor.constant_operand(node)
    if found is None or (numbers := by_axis(found[1], editor.shapes[found[0]], axis)) is None:
        return None
    if node.operator == "add":
        return scale, shift + numbers
    if node.operator == "mul":
        return scale * numbers, shift * numbers
    if not found[2]:
        return None
    return (scale, shift - numbers) if node.operator == "sub" else (scale / numbers, shift / numbers)
