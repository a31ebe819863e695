"""Translates the operators of ONNX to neutral ones. Some have attributes that became inputs later."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from genepool.errors import DataError
from genepool.export.foreign.graph import Builder
from genepool.export.foreign.onnx_tensors import FLOATS, INTEGERS, read_tensor
from genepool.export.foreign.sizes import ceil_pads, same_pads


class Call(NamedTuple):
    """One node with its attributes decoded."""

    builder: Builder
    kind: str
    attributes: dict[str, Any]
    inputs: list[str]
    output: str
    place: str

    def input(self, number: int) -> str:
        """The name of an input; empty if it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""

    def pair(self, name: str, usual: int) -> tuple[int, int]:
        first, second = self.attributes.get(name, (usual, usual))
        return int(first), int(second)

    def add(self, operator: str, inputs: Sequence[str], **fields: Any) -> None:
        self.builder.add(operator, inputs, self.output, self.place, **fields)

    def integers(self, name: str) -> list[int]:
        return [int(number) for number in self.builder.number(name, self.place).reshape(-1).tolist()]

    def axes(self, place: int = 1) -> list[int] | None:
        """Axes, which are an attribute or an input."""
        if (given := self.attributes.get("axes")) is not None:
            return [int(axis) for axis in given]
        return self.integers(self.input(place)) if self.input(place) else None

    def scalar(self, name: str, attribute: str, usual: float) -> float:
        if name:
            return float(self.builder.number(name, self.place).reshape(()))
        return float(self.attributes.get(attribute, usual))


Handler = Callable[[Call], None]


def _window(call: Call, kernel: tuple[int, int]) -> dict[str, Any]:
    """Strides, dilations and pads of a convolution or pool."""
    size = call.builder.shape(call.input(0))[2:]
    strides, dilations = call.pair("strides", 1), call.pair("dilations", 1)
    if len(size) != 2 or min(*strides, *dilations, *kernel) < 1:
        raise DataError(f"{call.place} does not work on images, or has strides below 1.")
    automatic = call.attributes.get("auto_pad", b"NOTSET")
    pads = tuple(call.attributes.get("pads", (0, 0, 0, 0)))
    if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
        pads = same_pads(size, spans, strides, lower=automatic == b"SAME_LOWER")
    if call.attributes.get("ceil_mode", 0):
        pads = ceil_pads(size, kernel, strides, pads, dilations)
    return {"strides": strides, "dilations": dilations, "pads": pads}


def _conv(call: Call) -> None:
    weight = call.builder.number(call.input(1), call.place)
    if weight.ndim != 4:
        raise DataError(f"{call.place} has filters of {weight.ndim} dimensions instead of 4.")
    window = _window(call, (weight.shape[2], weight.shape[3]))
    call.add("conv", [*call.inputs[:3], ""][:3], groups=call.attributes.get("group", 1), **window)


def _pool(call: Call) -> None:
    kernel = call.pair("kernel_shape", 1)
    window = _window(call, kernel)
    if call.kind == "MaxPool":
        call.add("max_pool", call.inputs[:1], kernel=kernel, **window)
        return
    include = bool(call.attributes.get("count_include_pad", 0))
    if window.pop("dilations") != (1, 1) or (include and call.attributes.get("ceil_mode", 0)):
        raise DataError(f"{call.place} averages with dilation, or over padding with ceil_mode; neither has a layer.")
    call.add("average_pool", call.inputs[:1], kernel=kernel, include_pad=include, **window)


def _batch_norm(call: Call) -> None:
    if call.attributes.get("training_mode", 0):
        raise DataError(f"{call.place} is in training mode; export the network in evaluation mode.")
    call.add("batch_norm", call.inputs[:5], epsilon=float(call.attributes.get("epsilon", 1e-5)))


def _gemm(call: Call) -> None:
    if call.attributes.get("transA", 0):
        raise DataError(f"{call.place} transposes images (transA), which has no layer in Genepool.")
    weight = call.builder.number(call.input(1), call.place) * call.attributes.get("alpha", 1.0)
    call.builder.constant(f"{call.output}.weight", weight if call.attributes.get("transB", 0) else weight.T)
    bias = ""
    if call.input(2):
        bias = f"{call.output}.bias"
        numbers = call.builder.number(call.input(2), call.place) * call.attributes.get("beta", 1.0)
        channels = call.builder.shape(f"{call.output}.weight")[0]
        call.builder.constant(bias, numbers.reshape(-1).expand(channels))
    call.add("linear", [call.input(0), f"{call.output}.weight", bias])


def _clip(call: Call) -> None:
    low = call.scalar(call.input(1), "min", -math.inf)
    high = call.scalar(call.input(2), "max", math.inf)
    call.add("clip", call.inputs[:1], low=low, high=high)


def _gelu(call: Call) -> None:
    if call.attributes.get("approximate", b"none") != b"none":
        raise DataError(f"{call.place} approximates GELU with tanh, but Genepool's is exact.")
    call.add("gelu", call.inputs[:1])


def _softmax(call: Call) -> None:
    operator = "softmax" if call.kind == "Softmax" else "log_softmax"
    call.add(operator, call.inputs[:1], axis=int(call.attributes.get("axis", -1)))


def _mean(call: Call) -> None:
    shape = call.builder.shape(call.input(0))
    axes = [2, 3] if call.kind == "GlobalAveragePool" else call.axes()
    chosen = axes if axes is not None else list(range(len(shape)))
    keep = call.kind == "GlobalAveragePool" or bool(call.attributes.get("keepdims", 1))
    call.add("mean", call.inputs[:1], axes=chosen, keep=keep)


def _reshape(call: Call) -> None:
    shape = list(call.builder.shape(call.input(0)))
    if call.kind == "Flatten":
        axis = int(call.attributes.get("axis", 1))
        wanted = [math.prod(shape[:axis]), math.prod(shape[axis:])]
    elif call.kind == "Reshape":
        wanted = call.integers(call.input(1))
        if not call.attributes.get("allowzero", 0):
            wanted = [shape[place] if n == 0 else n for place, n in enumerate(wanted)]
    elif call.kind == "Squeeze":
        axes = call.axes()
        gone = {axis % len(shape) for axis in axes} if axes is not None else {i for i, n in enumerate(shape) if n == 1}
        wanted = [n for place, n in enumerate(shape) if place not in gone]
    else:
        added = call.axes() or []
        rest, count = iter(shape), len(shape) + len(added)
        places = {axis % count for axis in added}
        wanted = [1 if place in places else next(rest) for place in range(count)]
    call.add("reshape", call.inputs[:1], shape=wanted)


def _transpose(call: Call) -> None:
    usual = list(reversed(range(len(call.builder.shape(call.input(0))))))
    call.add("transpose", call.inputs[:1], order=list(call.attributes.get("perm", usual)))


def _pad(call: Call) -> None:
    if call.attributes.get("mode", b"constant") != b"constant":
        raise DataError(f"{call.place} pads with something else than a constant, which has no layer in Genepool.")
    pads = list(call.attributes.get("pads", ())) or call.integers(call.input(1))
    rank, axes = len(call.builder.shape(call.input(0))), call.axes(3)
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes if axes is not None else range(rank)):
        before[axis], after[axis] = int(pads[place]), int(pads[place + len(pads) // 2])
    value = call.scalar(call.input(2), "value", 0.0)
    call.add("pad", call.inputs[:1], before=before, after=after, value=value)


def _slice(call: Call) -> None:
    shape, given = call.builder.shape(call.input(0)), call.attributes
    if "starts" in given:
        starts, ends = list(given["starts"]), list(given["ends"])
        axes, steps = list(given.get("axes", range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = call.integers(call.input(1)), call.integers(call.input(2))
        axes = call.axes(3) or list(range(len(starts)))
        steps = call.integers(call.input(4)) if call.input(4) else [1] * len(starts)
    x = call.input(0)
    for number, (axis, start, end, step) in enumerate(zip(axes, starts, ends, steps, strict=True)):
        is_last = number == len(axes) - 1
        output = call.output if is_last else f"{call.output}.axis{number}"
        places = list(range(shape[axis]))[slice(start, end, step) if end > -(2**62) else slice(start, None, step)]
        call.builder.add("gather", [x], output, call.place, axis=axis, places=places)
        x = output


def _gather(call: Call) -> None:
    axis = int(call.attributes.get("axis", 0))
    length = call.builder.shape(call.input(0))[axis]
    places = torch.remainder(call.builder.number(call.input(1), call.place), length)
    call.add("gather", call.inputs[:1], axis=axis, places=places.tolist())


def _shape(call: Call) -> None:
    start, end = call.attributes.get("start", 0), call.attributes.get("end")
    call.builder.constant(call.output, torch.tensor(call.builder.shape(call.input(0))[start:end]))


def _constant(call: Call) -> None:
    given = call.attributes
    if "value" in given:
        call.builder.constant(call.output, read_tensor(given["value"]))
        return
    [number] = [given[name] for name in ("value_float", "value_floats", "value_int", "value_ints") if name in given]
    call.builder.constant(call.output, torch.tensor(number))


def _constant_of_shape(call: Call) -> None:
    value = read_tensor(call.attributes["value"]).item() if "value" in call.attributes else 0.0
    call.add("full", call.inputs[:1], shape=call.integers(call.input(0)), value=value)


def _range(call: Call) -> None:
    limits = [call.builder.number(name, call.place).item() for name in call.inputs]
    call.add("range", call.inputs[:1], limits=limits)


def _cast(call: Call) -> None:
    target = int(call.attributes["to"])
    if target not in (*FLOATS, *INTEGERS):
        raise DataError(f"{call.place} converts to a type that is not supported.")
    dtype = torch.float32 if target in FLOATS else getattr(torch, INTEGERS[target])
    call.add("cast", call.inputs[:1], dtype=dtype)


def _leaky_relu(call: Call) -> None:
    call.add("leaky_relu", call.inputs[:1], slope=float(call.attributes.get("alpha", 0.01)))


def _prelu(call: Call) -> None:
    slopes = call.builder.number(call.input(1), call.place)
    if not bool((slopes == slopes.reshape(-1)[0]).all()):
        raise DataError(f"{call.place} has a slope per channel, but Genepool's rectifiers have one per layer.")
    call.add("leaky_relu", call.inputs[:1], slope=float(slopes.reshape(-1)[0]))


def _hard_sigmoid(call: Call) -> None:
    alpha, beta = call.attributes.get("alpha", 0.2), call.attributes.get("beta", 0.5)
    call.add("hard_sigmoid", call.inputs[:1], alpha=float(alpha), beta=float(beta))


def _simple(operator: str, inputs: int) -> Handler:
    return lambda call: call.add(operator, call.inputs[:inputs])


def _concat(call: Call) -> None:
    call.add("cat", call.inputs, axis=int(call.attributes["axis"]))


def _expand(call: Call) -> None:
    call.add("expand", call.inputs[:1], shape=call.integers(call.input(1)))


def _sum(call: Call) -> None:
    if len(call.inputs) == 1:
        call.add("identity", call.inputs)
    total = call.inputs[0]
    for number, other in enumerate(call.inputs[1:]):
        output = call.output if number == len(call.inputs) - 2 else f"{call.output}.sum{number}"
        call.builder.add("add", [total, other], output, call.place)
        total = output


HANDLERS: dict[str, Handler] = {
    "Conv": _conv, "MaxPool": _pool, "AveragePool": _pool, "BatchNormalization": _batch_norm, "Gemm": _gemm,
    "GlobalAveragePool": _mean, "ReduceMean": _mean, "Clip": _clip, "Gelu": _gelu, "LeakyRelu": _leaky_relu,
    "PRelu": _prelu, "HardSigmoid": _hard_sigmoid, "Softmax": _softmax, "LogSoftmax": _softmax,
    "Flatten": _reshape, "Reshape": _reshape, "Squeeze": _reshape, "Unsqueeze": _reshape, "Transpose": _transpose,
    "Pad": _pad, "Slice": _slice, "Gather": _gather, "Shape": _shape, "Constant": _constant, "Concat": _concat,
    "ConstantOfShape": _constant_of_shape, "Range": _range, "Cast": _cast, "Expand": _expand, "Sum": _sum,
    "Relu": _simple("relu", 1), "Sigmoid": _simple("sigmoid", 1), "HardSwish": _simple("hard_swish", 1),
    "Swish": _simple("silu", 1), "Erf": _simple("erf", 1), "Tanh": _simple("tanh", 1), "Sqrt": _simple("sqrt", 1),
    "Neg": _simple("neg", 1), "Reciprocal": _simple("reciprocal", 1), "Floor": _simple("floor", 1),
    "Identity": _simple("identity", 1), "Dropout": _simple("identity", 1), "MatMul": _simple("matmul", 2),
    "Add": _simple("add", 2), "Sub": _simple("sub", 2), "Mul": _simple("mul", 2), "Div": _simple("div", 2),
    "Pow": _simple("pow", 2), "Min": _simple("minimum", 2), "Max": _simple("maximum", 2),
}  # fmt: skip
