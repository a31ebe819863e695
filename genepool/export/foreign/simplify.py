"""Brings a neutral graph into a form whose nodes are layers: constants are folded, patterns recognised.

Afterwards the operators are conv, linear, batch_norm, affine, max_pool, average_pool, global_pool, add, fit,
squeeze_excitation, the activations and, at the end, softmax. Anything else is left for `translate` to refuse.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from genepool.errors import DataError
from genepool.export.foreign.editor import Editor, Rule, by_axis, made
from genepool.export.foreign.graph import Node
from genepool.export.foreign.patterns import activation, gate, gelu, hard_sigmoid, squeeze_excitation

NOT_NEGATIVE = ("relu", "relu6", "sigmoid", "softmax")


def simplify(editor: Editor) -> None:
    for node in editor.nodes.values():
        has_weights = node.operator in ("conv", "linear", "batch_norm")
        if has_weights and any(name not in editor.constants for name in node.inputs[1:] if name):
            raise DataError(f"{node.place} computes its weights from images, which no layer of Genepool does.")
    for rule in RULES:
        editor.rewrite(rule)


def complete_norm(editor: Editor, node: Node) -> Node | None:
    """Batch normalisation without weights of its own has neutral ones."""
    if node.operator != "batch_norm" or all(node.inputs):
        return None
    channels = editor.shapes[node.output][1]
    weight = node.inputs[1] or editor.keep(f"{node.output}.weight", torch.ones(channels))
    bias = node.inputs[2] or editor.keep(f"{node.output}.bias", torch.zeros(channels))
    return made(node, "batch_norm", [node.inputs[0], weight, bias, *node.inputs[3:]], **node.fields)


def drop_no_ops(editor: Editor, node: Node) -> Node | str | None:
    """Operators that change nothing."""
    x, shapes, fields = node.inputs[0], editor.shapes, node.fields
    if node.operator in ("identity", "cast"):
        return x
    if node.operator in ("reshape", "expand") and shapes[x] == shapes[node.output]:
        return x
    if node.operator == "transpose" and list(fields["order"]) == sorted(fields["order"]):
        return x
    if node.operator == "pad" and not any((*fields["before"], *fields["after"])):
        return x
    if node.operator == "gather" and list_of(fields["places"]) == list(range(shapes[x][fields["axis"]])):
        return x
    is_pool = node.operator in ("max_pool", "average_pool") and not any(fields["pads"])
    return x if is_pool and tuple(fields["kernel"]) == tuple(fields["strides"]) == (1, 1) else None


def list_of(places: Any) -> list[int] | None:
    return list(places) if isinstance(places, list | tuple) else None


def constants_to_affine(editor: Editor, node: Node) -> Node | None:
    """Arithmetic with a constant per channel; a product with a matrix is a fully connected layer."""
    if node.operator == "neg":
        return _affine(editor, node, node.inputs[0], -1.0, 0.0)
    if node.operator not in ("add", "sub", "mul", "div", "matmul"):
        return None
    if node.fields.get("rounding") is not None or (found := editor.constant_operand(node)) is None:
        return None
    x, tensor, is_second = found
    shape = editor.shapes[x]
    if node.operator == "matmul":
        if not is_second or tensor.ndim != 2 or len(shape) != 2:
            return None
        return made(node, "linear", [x, editor.keep(f"{node.output}.weight", tensor.T), ""])
    if len(shape) < 2 or shape != editor.shapes[node.output] or (numbers := by_axis(tensor, shape, 1)) is None:
        return None
    if node.operator == "add":
        return _affine(editor, node, x, 1.0, numbers)
    if node.operator == "sub":
        return _affine(editor, node, x, *((1.0, -numbers) if is_second else (-1.0, numbers)))
    if node.operator == "mul":
        return _affine(editor, node, x, numbers, 0.0)
    return _affine(editor, node, x, 1 / numbers, 0.0) if is_second else None


def _affine(editor: Editor, node: Node, x: str, scale: Tensor | float, shift: Tensor | float) -> Node:
    channels = editor.shapes[x][1]
    names = []
    for name, number in (("scale", scale), ("shift", shift)):
        numbers = torch.as_tensor(number, dtype=torch.float64).expand(channels)
        names.append(editor.keep(f"{node.output}.{name}", numbers))
    return made(node, "affine", [x, *names])


def compose_affine(editor: Editor, node: Node) -> Node | None:
    """Make one of two affine functions."""
    return _folded(editor, node, "affine")


def fold_affine(editor: Editor, node: Node) -> Node | None:
    """Move an affine function into the layer before it."""
    return _folded(editor, node, "conv", "linear", "batch_norm", "affine")


def _folded(editor: Editor, node: Node, *operators: str) -> Node | None:
    before = editor.only_maker(node.inputs[0], *operators) if node.operator == "affine" else None
    if before is None or editor.shapes[before.output] != editor.shapes[node.output]:
        return None
    scale, shift = (editor.constants[name] for name in node.inputs[1:])
    x, weight, bias = before.inputs[0], editor.constants[before.inputs[1]].double(), editor.tensor(before.inputs[2])
    shift = shift if bias is None else shift + scale * bias.double()
    scaled = weight * scale.view(-1, *[1] * (weight.ndim - 1))
    names = [editor.keep(f"{node.output}.weight", scaled), editor.keep(f"{node.output}.bias", shift)]
    return made(node, before.operator, [x, *names, *before.inputs[3:]], **before.fields)


def fold_bias(editor: Editor, node: Node) -> Node | None:
    """A bias before batch normalisation only moves its mean."""
    if node.operator != "batch_norm":
        return None
    before = editor.only_maker(node.inputs[0], "conv")
    if before is None or (bias := editor.tensor(before.inputs[2])) is None:
        return None
    mean = editor.constants[node.inputs[3]].double() - bias.double()
    editor.nodes[before.output] = before._replace(inputs=(*before.inputs[:2], ""))
    inputs = [*node.inputs[:3], editor.keep(f"{node.output}.mean", mean), node.inputs[4]]
    return made(node, "batch_norm", inputs, **node.fields)


def fold_pad(editor: Editor, node: Node) -> Node | None:
    """Padding before a convolution or pool becomes part of it."""
    if node.operator not in ("conv", "max_pool", "average_pool"):
        return None
    pad = editor.maker(node.inputs[0], "pad")
    if pad is None or len(pad.fields["before"]) != 4 or any((*pad.fields["before"][:2], *pad.fields["after"][:2])):
        return None
    added = (*pad.fields["before"][2:], *pad.fields["after"][2:])
    if min(added) < 0 or not _pads_alike(editor, node, pad):
        return None
    pads = tuple(old + new for old, new in zip(node.fields["pads"], added, strict=True))
    fields = dict(node.fields) | {"pads": pads}
    if node.operator == "average_pool":
        fields["include_pad"] = True
    return made(node, node.operator, [pad.inputs[0], *node.inputs[1:]], **fields)


def _pads_alike(editor: Editor, node: Node, pad: Node) -> bool:
    """Whether the padded pixels have the value that the node's own padding would have."""
    value = pad.fields["value"]
    if node.operator == "max_pool":
        return value == -math.inf or (value == 0 and editor.maker(pad.inputs[0], *NOT_NEGATIVE) is not None)
    own = any(node.fields["pads"]) and not node.fields.get("include_pad", True)
    return value == 0 and not own


def global_pool(editor: Editor, node: Node) -> Node | None:
    """The mean of all pixels, in its many spellings."""
    if node.operator == "average_pool":
        size = editor.shapes[node.inputs[0]][2:]
        is_all = tuple(node.fields["kernel"]) == tuple(size) and not any(node.fields["pads"])
        return made(node, "global_pool", node.inputs[:1]) if is_all else None
    if node.operator != "mean":
        return None
    x = node.inputs[0]
    rank = len(editor.shapes[x])
    axes = sorted(axis % rank for axis in node.fields["axes"])
    if rank == 3 and len(axes) == 1 and (flat := editor.maker(x, "reshape")) is not None:
        batch, *shape = editor.shapes[flat.inputs[0]]
        if len(shape) == 3 and axes == [2] and editor.shapes[x] == (batch, shape[0], shape[1] * shape[2]):
            x, axes, rank = flat.inputs[0], [2, 3], 4
        elif len(shape) == 3 and axes == [1] and editor.shapes[x] == (batch, shape[0] * shape[1], shape[2]):
            x, axes, rank = flat.inputs[0], [1, 2], 4
    turned = editor.maker(x, "transpose")
    if axes == [1, 2] and turned is not None and list(turned.fields["order"]) == [0, 2, 3, 1]:
        x, axes = turned.inputs[0], [2, 3]
    return made(node, "global_pool", [x]) if rank == 4 and axes == [2, 3] else None


def drop_flat_shapes(editor: Editor, node: Node) -> str | None:
    """Values of one pixel stay what they are when they are reshaped."""
    if node.operator not in ("reshape", "transpose"):
        return None
    before, after = editor.shapes[node.inputs[0]], editor.shapes[node.output]
    sizes = [[n for n in shape[1:] if n != 1] for shape in (before, after)]
    is_same = before[0] == after[0] and sizes[0] == sizes[1] and len(sizes[0]) <= 1 and len(before) >= 2
    is_in_place = len(before) < 3 or math.prod(before[2:]) == 1
    return node.inputs[0] if is_same and is_in_place else None


def flat_linear(editor: Editor, node: Node) -> Node | None:
    """A fully connected layer on all pixels is a convolution as large as the image."""
    flat = editor.maker(node.inputs[0], "reshape") if node.operator == "linear" else None
    if flat is None or (shape := editor.shapes[flat.inputs[0]])[0] != editor.shapes[flat.output][0] or len(shape) != 4:
        return None
    x, weight = flat.inputs[0], editor.constants[node.inputs[1]]
    turned = editor.maker(x, "transpose")
    filters = weight.reshape(weight.shape[0], *shape[1:])
    if turned is not None and list(turned.fields["order"]) == [0, 2, 3, 1]:
        x, filters = turned.inputs[0], filters.permute(0, 3, 1, 2)
    inputs = [x, editor.keep(f"{node.output}.filters", filters), node.inputs[2]]
    return made(node, "conv", inputs, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1)


def fit(editor: Editor, node: Node) -> Node | None:
    """Other sizes as a sum's vertex makes them: the nearest pixels, the first channels, channels of zeros."""
    if node.operator not in ("resize", "gather", "pad") or len(editor.shapes[node.inputs[0]]) != 4:
        return None
    old, new = editor.shapes[node.inputs[0]], editor.shapes[node.output]
    is_fit = node.operator == "resize"
    if node.operator == "gather" and (places := list_of(node.fields["places"])) is not None:
        axis = node.fields["axis"]
        is_fit = places == (list(range(new[1])) if axis == 1 else nearest(old[axis], new[axis])) and axis != 0
    if node.operator == "pad":
        other = (*node.fields["before"], node.fields["after"][0], *node.fields["after"][2:])
        is_fit = not any(other) and node.fields["after"][1] > 0 and node.fields["value"] == 0
    return made(node, "fit", node.inputs[:1]) if is_fit else None


def decompose(editor: Editor, node: Node) -> list[Node] | None:
    """Rectifiers that are no layer of their own, from those that are."""
    x, fields = node.inputs[0], node.fields
    if node.operator == "leaky_relu" and editor.only_maker(x, "batch_norm") is None:
        slope = fields["slope"]
        above = _step(editor, node, "above", "relu", x)
        parts = [
            *(above, _step(editor, node, "steep", "affine", above.output, 1 - slope, 0.0)),
            _step(editor, node, "flat", "affine", x, slope, 0.0),
        ]
        return [*parts, made(node, "add", [parts[1].output, parts[2].output])]
    if node.operator == "hard_sigmoid":
        bounds = (6 * fields["alpha"], 6 * fields["beta"], "relu6", 1 / 6, 0.0)
    elif node.operator != "clip" or (low := fields["low"]) > (high := fields["high"]):
        return None
    elif math.isinf(high):
        bounds = (1.0, -low, "relu", 1.0, low)
    elif math.isinf(low):
        bounds = (-1.0, high, "relu", -1.0, high)
    else:
        bounds = (6 / (high - low), -6 * low / (high - low), "relu6", (high - low) / 6, low)
    before = _step(editor, node, "before", "affine", x, *bounds[:2])
    middle = _step(editor, node, "middle", bounds[2], before.output)
    return [before, middle, _affine(editor, node, middle.output, *bounds[3:])]


def _step(editor: Editor, node: Node, name: str, operator: str, x: str, *numbers: float) -> Node:
    """A node before the last of several that replace one."""
    output = f"{node.output}.{name}"
    editor.shapes[output] = editor.shapes[x]
    step = made(node, operator, [x])._replace(output=output)
    return _affine(editor, step, x, *numbers) if operator == "affine" else step


def nearest(old: int, new: int) -> list[int]:
    line = torch.arange(old, dtype=torch.float32).view(1, 1, old, 1)
    picked = torch.nn.functional.interpolate(line, size=(new, 1), mode="nearest")
    return [int(place) for place in picked.flatten().tolist()]


RULES: tuple[Rule, ...] = (
    complete_norm, drop_no_ops, constants_to_affine, compose_affine, activation, hard_sigmoid, gelu, gate, fold_affine,
    fold_pad, global_pool, squeeze_excitation, drop_flat_shapes, fold_affine, decompose, fold_affine, fold_bias,
    flat_linear, fit,
)  # fmt: skip
