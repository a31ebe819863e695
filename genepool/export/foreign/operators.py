"""The neutral operators, each written plainly in torch. Readers translate a file's operators to these; the check of a
translated network computes the original with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Given = Sequence[Any]  # the inputs; None where one is left out
Fields = Mapping[str, Any]
Operator = Callable[[Given, Fields], Tensor]

FREE = frozenset({"identity", "reshape", "transpose"})
"""Operators that copy nothing."""


def _padded(x: Tensor, pads: Sequence[int], value: float) -> Tensor:
    """Pad height and width; `pads` is (top, left, bottom, right)."""
    top, left, bottom, right = pads
    return functional.pad(x, (left, right, top, bottom), value=value) if any(pads) else x


def _conv(given: Given, fields: Fields) -> Tensor:
    x, weight, bias = given
    x = _padded(x, fields["pads"], 0.0)
    return functional.conv2d(x, weight, bias, fields["strides"], 0, fields["dilations"], fields["groups"])


def _max_pool(given: Given, fields: Fields) -> Tensor:
    x = _padded(given[0], fields["pads"], -math.inf)
    return functional.max_pool2d(x, fields["kernel"], fields["strides"], 0, fields["dilations"])


def _average_pool(given: Given, fields: Fields) -> Tensor:
    """The average over each window; without `include_pad`, over real pixels only."""

    def pooled(x: Tensor) -> Tensor:
        return functional.avg_pool2d(_padded(x, fields["pads"], 0.0), fields["kernel"], fields["strides"])

    x = given[0]
    if fields["include_pad"] or not any(fields["pads"]):
        return pooled(x)
    return pooled(x) / pooled(torch.ones_like(x[:1, :1]))


def _batch_norm(given: Given, fields: Fields) -> Tensor:
    x, weight, bias, mean, variance = given
    return functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, fields["epsilon"])


def _linear(given: Given, fields: Fields) -> Tensor:
    x, weight, bias = given
    return functional.linear(x, weight, bias)


def _clip(given: Given, fields: Fields) -> Tensor:
    return given[0].clamp(fields["low"], fields["high"])


def _mean(given: Given, fields: Fields) -> Tensor:
    return given[0].mean(fields["axes"], keepdim=fields["keep"])


def _pad(given: Given, fields: Fields) -> Tensor:
    """`before` and `after` have a number per axis."""
    both = [n for pair in zip(reversed(fields["before"]), reversed(fields["after"]), strict=True) for n in pair]
    return functional.pad(given[0], both, value=fields["value"])


def _gather(given: Given, fields: Fields) -> Tensor:
    """Pick places along one axis; a single number instead of a list removes the axis."""
    x, places = given[0], torch.as_tensor(fields["places"], dtype=torch.int64)
    if x.is_meta:
        places = places.to("meta")
    picked = x.index_select(fields["axis"], places.reshape(-1))
    axis = fields["axis"] % x.ndim
    return picked.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


def _resize(given: Given, fields: Fields) -> Tensor:
    return functional.interpolate(given[0], size=fields["size"], mode="nearest")


def _cat(given: Given, fields: Fields) -> Tensor:
    return torch.cat(list(given), fields["axis"])


def _full(given: Given, fields: Fields) -> Tensor:
    """A tensor of one number; the shape is the length of the only input, which holds it."""
    return torch.full(tuple(fields["shape"]), fields["value"], device="meta" if given[0].is_meta else "cpu")


def _range(given: Given, fields: Fields) -> Tensor:
    return torch.arange(*fields["limits"], device="meta" if given[0].is_meta else "cpu")


def _cast(given: Given, fields: Fields) -> Tensor:
    return given[0].to(fields["dtype"])


def _hard_sigmoid(given: Given, fields: Fields) -> Tensor:
    return (given[0] * fields["alpha"] + fields["beta"]).clamp(0, 1)


def _of_one(function: Callable[[Tensor], Tensor]) -> Operator:
    return lambda given, fields: function(given[0])


def _of_two(function: Callable[[Any, Any], Tensor]) -> Operator:
    return lambda given, fields: function(given[0], given[1])


OPERATORS: dict[str, Operator] = {
    # layers
    "conv": _conv, "linear": _linear, "batch_norm": _batch_norm, "max_pool": _max_pool, "average_pool": _average_pool,
    # functions of each value
    "relu": _of_one(torch.relu), "clip": _clip, "sigmoid": _of_one(torch.sigmoid), "tanh": _of_one(torch.tanh),
    "leaky_relu": lambda given, fields: functional.leaky_relu(given[0], fields["slope"]),
    "silu": _of_one(functional.silu), "gelu": _of_one(functional.gelu), "erf": _of_one(torch.erf),
    "hard_swish": _of_one(functional.hardswish), "hard_sigmoid": _hard_sigmoid, "sqrt": _of_one(torch.sqrt),
    "neg": _of_one(torch.neg), "reciprocal": _of_one(torch.reciprocal), "floor": _of_one(torch.floor),
    "softmax": lambda given, fields: torch.softmax(given[0], fields["axis"]),
    "log_softmax": lambda given, fields: torch.log_softmax(given[0], fields["axis"]),
    # functions of two values
    "add": _of_two(torch.add), "sub": _of_two(torch.sub), "mul": _of_two(torch.mul), "pow": _of_two(torch.pow),
    "div": lambda given, fields: torch.div(given[0], given[1], rounding_mode=fields.get("rounding")),
    "minimum": _of_two(torch.minimum), "maximum": _of_two(torch.maximum), "matmul": _of_two(torch.matmul),
    # shapes
    "mean": _mean, "pad": _pad, "gather": _gather, "resize": _resize, "cat": _cat, "full": _full, "range": _range,
    "cast": _cast, "identity": _of_one(lambda x: x),
    "reshape": lambda given, fields: given[0].reshape(fields["shape"]),
    "transpose": lambda given, fields: given[0].permute(fields["order"]),
    "expand": lambda given, fields: given[0].expand(torch.broadcast_shapes(given[0].shape, tuple(fields["shape"]))),
}  # fmt: skip
