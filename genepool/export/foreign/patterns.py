"""Layers that files spell as several operators: rectifiers, GELU, hard swish, squeeze-and-excitation."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from genepool.export.foreign.editor import Editor, made
from genepool.export.foreign.graph import Node

TINY = 1e-5  # files round 1 / 6 and the square root of 2


def activation(editor: Editor, node: Node) -> Node | None:
    """Rectifiers by their bounds; minima and maxima with a number are bounds too."""
    if node.operator in ("minimum", "maximum"):
        found = editor.constant_operand(node)
        if found is None or found[1].numel() != 1:
            return None
        number = float(found[1].reshape(()))
        inner = editor.only_maker(found[0], "clip", "relu")
        low, high = _bounds(inner)
        bounds = (max(low, number), high) if node.operator == "maximum" else (low, min(high, number))
        x = inner.inputs[0] if inner is not None else found[0]
        return _rectifier(node, x, *bounds)
    if node.operator == "clip":
        inner = editor.only_maker(node.inputs[0], "relu")
        low, high = node.fields["low"], node.fields["high"]
        if inner is not None and low <= 0:
            return _rectifier(node, inner.inputs[0], 0.0, high)
        return _rectifier(node, node.inputs[0], low, high)
    return None


def _bounds(node: Node | None) -> tuple[float, float]:
    if node is None:
        return -math.inf, math.inf
    return (0.0, math.inf) if node.operator == "relu" else (node.fields["low"], node.fields["high"])


def _rectifier(node: Node, x: str, low: float, high: float) -> Node:
    if (low, high) == (0.0, math.inf):
        return made(node, "relu", [x])
    if (low, high) == (0.0, 6.0):
        return made(node, "relu6", [x])
    return made(node, "clip", [x], low=low, high=high)


class _Affine(NamedTuple):
    """The same multiple and shift of all channels."""

    x: str
    scale: float
    shift: float

    def equals(self, scale: float, shift: float) -> bool:
        return abs(self.scale - scale) < TINY and abs(self.shift - shift) < TINY


def _same_affine(editor: Editor, name: str) -> _Affine:
    """A value as the affine function of another one; of itself if it is none."""
    node = editor.maker(name, "affine")
    if node is None:
        return _Affine(name, 1.0, 0.0)
    scale, shift = (editor.constants[each] for each in node.inputs[1:])
    if not bool((scale == scale[0]).all() and (shift == shift[0]).all()):
        return _Affine(name, 1.0, 0.0)
    return _Affine(node.inputs[0], float(scale[0]), float(shift[0]))


def _product(editor: Editor, node: Node) -> tuple[Node, float] | None:
    """A product of two values and what all of it is multiplied by."""
    if node.operator == "mul":
        return node, 1.0
    product = editor.maker(node.inputs[0], "mul") if node.operator == "affine" else None
    if product is None:
        return None
    scale, shift = (editor.constants[each] for each in node.inputs[1:])
    is_plain = bool((scale == scale[0]).all() and (shift == 0).all())
    return (product, float(scale[0])) if is_plain else None


def gelu(editor: Editor, node: Node) -> Node | None:
    """x / 2 (1 + erf(x / sqrt 2)), with the half in any place."""
    if (found := _product(editor, node)) is None:
        return None
    product, times = found
    for first, second in (product.inputs, reversed(product.inputs)):
        x, factor = _same_affine(editor, first), _same_affine(editor, second)
        erf = editor.maker(factor.x, "erf")
        inner = _same_affine(editor, erf.inputs[0]) if erf is not None else None
        if inner is None or not inner.equals(math.sqrt(0.5), 0.0) or x.shift:
            continue
        half = times * x.scale
        if inner.x == x.x and abs(half * factor.scale - 0.5) < TINY and abs(half * factor.shift - 0.5) < TINY:
            return made(node, "gelu", [x.x])
    return None


def _is_hard_sigmoid(node: Node) -> bool:
    return abs(node.fields["alpha"] - 1 / 6) < TINY and abs(node.fields["beta"] - 0.5) < TINY


def hard_sigmoid(editor: Editor, node: Node) -> Node | None:
    """relu6(x + 3) / 6, or x / 6 + 1 / 2 between 0 and 1."""
    if node.operator == "affine":
        scale, shift = (editor.constants[each] for each in node.inputs[1:])
        bounded = editor.maker(node.inputs[0], "relu6")
        inner = _same_affine(editor, bounded.inputs[0]) if bounded is not None else None
        is_sixth = bool(((scale - 1 / 6).abs() < TINY).all() and (shift == 0).all())
        is_gate = inner is not None and is_sixth and inner.equals(1.0, 3.0)
    elif node.operator == "clip" and (node.fields["low"], node.fields["high"]) == (0.0, 1.0):
        inner = _same_affine(editor, node.inputs[0])
        is_gate = inner.equals(1 / 6, 0.5)
    else:
        return None
    return made(node, "hard_sigmoid", [inner.x], alpha=1 / 6, beta=0.5) if inner is not None and is_gate else None


def _gate_of(editor: Editor, name: str) -> tuple[str, str] | None:
    """The kind of a gate and what it is computed from."""
    node = editor.maker(name, "sigmoid", "hard_sigmoid")
    is_gate = node is not None and (node.operator == "sigmoid" or _is_hard_sigmoid(node))
    return (node.operator, node.inputs[0]) if node is not None and is_gate else None


def gate(editor: Editor, node: Node) -> Node | None:
    """SiLU and hard swish: a value times its own gate. The sixth of hard swish may come last."""
    if (found := _product(editor, node)) is None:
        return None
    product, times = found
    for x, other in (product.inputs, reversed(product.inputs)):
        own = _gate_of(editor, other)
        if own is not None and own[1] == x and times == 1.0:
            return made(node, "silu" if own[0] == "sigmoid" else "hard_swish", [x])
        bounded = editor.maker(other, "relu6")
        inner = _same_affine(editor, bounded.inputs[0]) if bounded is not None else None
        if inner is not None and inner.x == x and inner.equals(1.0, 3.0) and abs(times - 1 / 6) < TINY:
            return made(node, "hard_swish", [x])
    return None


def squeeze_excitation(editor: Editor, node: Node) -> Node | None:
    """A value times gates that two layers compute from its channel means."""
    if node.operator != "mul" or len(editor.shapes[node.output]) != 4:
        return None
    for x, other in (node.inputs, reversed(node.inputs)):
        found = _gate_of(editor, _unshaped(editor, other))
        if found is None or editor.shapes[x] != editor.shapes[node.output]:
            continue
        expand = _layer(editor, found[1])
        active = editor.maker(_unshaped(editor, expand.inputs[0]), "relu", "silu") if expand is not None else None
        reduce = _layer(editor, active.inputs[0]) if active is not None else None
        if expand is None or active is None or reduce is None:
            continue
        means = editor.maker(_unshaped(editor, reduce.inputs[0]), "global_pool")
        if means is not None and means.inputs[0] == x:
            parts = [*_matrix(editor, reduce), *_matrix(editor, expand)]
            return made(node, "squeeze_excitation", [x, *parts], activation=active.operator, gate=found[0])
    return None


def _unshaped(editor: Editor, name: str) -> str:
    """The value before it was reshaped."""
    while (node := editor.maker(name, "reshape", "expand")) is not None:
        name = node.inputs[0]
    return name


def _layer(editor: Editor, name: str) -> Node | None:
    """The fully connected layer that computes a value; on one pixel, a 1x1 convolution is one."""
    node = editor.maker(_unshaped(editor, name), "linear", "conv")
    if node is None or node.operator == "linear":
        return node
    is_single = editor.shapes[node.output][2:] == (1, 1) and editor.constants[node.inputs[1]].shape[2:] == (1, 1)
    return node if is_single and node.fields["groups"] == 1 and not any(node.fields["pads"]) else None


def _matrix(editor: Editor, node: Node) -> tuple[str, str]:
    """The names of a layer's matrix and bias."""
    weight, bias = editor.constants[node.inputs[1]], editor.tensor(node.inputs[2])
    bias = bias if bias is not None else torch.zeros(weight.shape[0])
    return editor.keep(f"{node.output}.matrix", weight.flatten(1)), editor.keep(f"{node.output}.numbers", bias)
