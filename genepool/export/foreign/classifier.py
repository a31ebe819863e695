"""The end of a network: global pooling, one fully connected layer and perhaps softmax, which every network of Genepool
has anyway."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from genepool.errors import DataError
from genepool.export.foreign.editor import Editor
from genepool.export.foreign.graph import Node

MAX_CLASSES = 10_000


class Classifier(NamedTuple):
    weight: Tensor
    bias: Tensor


def split_classifier(editor: Editor) -> Classifier:
    """Take the classifier off the end of a graph, whose output is then what global pooling works on."""
    shape = editor.shapes[editor.output]
    if len([size for size in shape[1:] if size != 1]) > 1 or len(shape) < 2:
        raise DataError(f"its output has the shape {'x'.join(map(str, shape))}, which is not one number per class.")
    if (end := editor.maker(editor.output, "sigmoid")) is not None:
        raise DataError(f"{end.place} gives each class a probability of its own, but Genepool's networks choose one.")
    if (end := editor.maker(editor.output, "softmax", "log_softmax")) is not None:
        editor.output = end.inputs[0]
    if (layer := editor.maker(editor.output, "linear")) is not None:
        x, weight, bias = layer.inputs[0], editor.constants[layer.inputs[1]], editor.tensor(layer.inputs[2])
        return _taken(editor, _before_pool(editor, x), weight, bias)
    x, is_pooled = _before_pool(editor, editor.output)
    conv = editor.maker(x, "conv")
    if conv is not None and (matrix := _one_by_one(editor, conv)) is not None:
        # The mean of a 1x1 convolution is that convolution of the mean.
        return _taken(editor, (conv.inputs[0], is_pooled), matrix, editor.tensor(conv.inputs[2]))
    if (classes := editor.shapes[x][1]) > MAX_CLASSES:
        raise DataError(f"it has {classes} classes, more than {MAX_CLASSES}, and no fully connected layer.")
    return _taken(editor, (x, is_pooled), torch.eye(classes), None)


def _before_pool(editor: Editor, name: str) -> tuple[str, bool]:
    """The value that global pooling works on and whether there is any pooling."""
    pool = editor.maker(name, "global_pool")
    return (pool.inputs[0], True) if pool is not None else (name, False)


def _one_by_one(editor: Editor, conv: Node) -> Tensor | None:
    """The matrix of a 1x1 convolution of all pixels."""
    weight = editor.constants[conv.inputs[1]]
    is_plain = weight.shape[2:] == (1, 1) and conv.fields["groups"] == 1 and not any(conv.fields["pads"])
    return weight[:, :, 0, 0] if is_plain and tuple(conv.fields["strides"]) == (1, 1) else None


def _taken(editor: Editor, found: tuple[str, bool], weight: Tensor, bias: Tensor | None) -> Classifier:
    output, is_pooled = found
    shape = editor.shapes[output]
    if len(shape) not in (2, 4) or weight.shape[1] != shape[1] or (not is_pooled and set(shape[2:]) - {1}):
        raise DataError("its last layer works on something else than the channel means of an image.")
    editor.end_at(output)
    return Classifier(weight, bias if bias is not None else torch.zeros(weight.shape[0]))
