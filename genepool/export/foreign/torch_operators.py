"""Translates the operators of `torch.export` programs to neutral ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from genepool.errors import DataError
from genepool.export.foreign.archive import TYPES
from genepool.export.foreign.graph import SMALL, Builder
from genepool.export.foreign.sizes import ceil_pads, same_pads

FAR = 2**62


class Call(NamedTuple):
    """One operator with its arguments by name; tensors are names of values."""

    builder: Builder
    given: dict[str, Any]
    output: str
    place: str

    def add(self, operator: str, inputs: Sequence[str], **fields: Any) -> None:
        self.builder.add(operator, inputs, self.output, self.place, **fields)

    def shape(self, name: str = "self") -> tuple[int, ...]:
        return self.builder.shape(self.given[name])

    def get(self, name: str, usual: Any = None) -> Any:
        value = self.given.get(name)
        return usual if value is None else value

    def refuse(self, reason: str) -> DataError:
        return DataError(f"{self.place} {reason}.")


Handler = Callable[[Call], None]


def _pair(value: Any, usual: int) -> tuple[int, int]:
    numbers = [value] if isinstance(value, int) else list(value or [usual])
    return int(numbers[0]), int(numbers[-1])


def _conv(call: Call) -> None:
    weight = call.builder.number(call.given["weight"], call.place)
    if weight.ndim != 4 or call.get("transposed", False):
        raise call.refuse("is not a plain convolution of images, and others have no layer in Genepool")
    strides, dilations = _pair(call.get("stride"), 1), _pair(call.get("dilation"), 1)
    padding = call.get("padding", 0)
    if padding == "same":
        spans = [d * (k - 1) + 1 for d, k in zip(dilations, weight.shape[2:], strict=True)]
        pads: Sequence[int] = same_pads(call.shape("input")[2:], spans, strides, lower=False)
    else:
        pads = (*_pair(0 if padding == "valid" else padding, 0),) * 2
    inputs = [call.given["input"], call.given["weight"], call.get("bias", "")]
    window = {"strides": strides, "dilations": dilations, "pads": pads}
    call.add("conv", inputs, groups=int(call.get("groups", 1)), **window)


def _batch_norm(call: Call) -> None:
    if call.get("training", False):
        raise call.refuse("is in training mode; export the network in evaluation mode")
    given = [call.given["input"], *(call.get(name, "") for name in ("weight", "bias"))]
    inputs = [*given, call.given["running_mean"], call.given["running_var"]]
    call.add("batch_norm", inputs, epsilon=float(call.get("eps", 1e-5)))


def _linear(call: Call) -> None:
    call.add("linear", [call.given["input"], call.given["weight"], call.get("bias", "")])


def _addmm(call: Call) -> None:
    if call.get("alpha", 1) != 1 or call.get("beta", 1) != 1:
        raise call.refuse("scales its summands, which has no layer in Genepool")
    weight = f"{call.output}.weight"
    call.builder.constant(weight, call.builder.number(call.given["mat2"], call.place).T)
    call.add("linear", [call.given["mat1"], weight, call.given["self"]])


def _pool(call: Call) -> None:
    kernel = _pair(call.given["kernel_size"], 1)
    strides = _pair(call.get("stride") or kernel, 1)
    dilations, pads = _pair(call.get("dilation"), 1), (*_pair(call.get("padding"), 0),) * 2
    is_ceil = bool(call.get("ceil_mode", False))
    if is_ceil:
        pads = ceil_pads(call.shape()[2:], kernel, strides, pads, dilations)  # type: ignore[assignment]
    fields = {"kernel": kernel, "strides": strides, "pads": pads}
    if "count_include_pad" not in call.given and "(avg_pool" not in call.place:
        call.add("max_pool", [call.given["self"]], dilations=dilations, **fields)
        return
    include = bool(call.get("count_include_pad", True)) and any(pads)
    if call.get("divisor_override") is not None or (include and is_ceil):
        raise call.refuse("averages over padding with ceil_mode or with another divisor; neither has a layer")
    call.add("average_pool", [call.given["self"]], include_pad=include, **fields)


def _adaptive_pool(call: Call) -> None:
    size, wanted = call.shape()[2:], _pair(call.given["output_size"], 1)
    if wanted == (1, 1):
        call.add("mean", [call.given["self"]], axes=[2, 3], keep=True)
        return
    if any(n % m for n, m in zip(size, wanted, strict=True)):
        raise call.refuse(f"pools {size} pixels to {wanted}, which has no layer in Genepool")
    kernel = tuple(n // m for n, m in zip(size, wanted, strict=True))
    call.add("average_pool", [call.given["self"]], include_pad=False, kernel=kernel, strides=kernel, pads=(0,) * 4)


def _mean(call: Call) -> None:
    axes = call.get("dim") or range(len(call.shape()))
    call.add("mean", [call.given["self"]], axes=list(axes), keep=bool(call.get("keepdim", False)))


def _reshape(call: Call) -> None:
    call.add("reshape", [call.given["self"]], shape=call.given.get("size", call.given.get("shape")))


def _flatten(call: Call) -> None:
    shape = call.shape()
    start, end = (int(call.get(name, usual)) % len(shape) for name, usual in (("start_dim", 0), ("end_dim", -1)))
    wanted = [*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]]
    call.add("reshape", [call.given["self"]], shape=wanted)


def _squeeze(call: Call) -> None:
    shape, axes = call.shape(), call.get("dim", range(len(call.shape())))
    gone = {axis % len(shape) for axis in ([axes] if isinstance(axes, int) else axes)}
    call.add("reshape", [call.given["self"]], shape=[n for i, n in enumerate(shape) if n != 1 or i not in gone])


def _unsqueeze(call: Call) -> None:
    shape = list(call.shape())
    shape.insert(call.given["dim"] % (len(shape) + 1), 1)
    call.add("reshape", [call.given["self"]], shape=shape)


def _permute(call: Call) -> None:
    call.add("transpose", [call.given["self"]], order=call.given["dims"])


def _transpose(call: Call) -> None:
    order = list(range(len(call.shape())))
    first, second = call.get("dim0", 0), call.get("dim1", 1)
    order[first], order[second] = order[second], order[first]
    call.add("transpose", [call.given["self"]], order=order)


def _pad(call: Call) -> None:
    if call.get("mode", "constant") != "constant":
        raise call.refuse("pads with something else than a constant, which has no layer in Genepool")
    rank, pads = len(call.shape()), list(call.given["pad"])
    before, after = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):
        before[rank - 1 - place], after[rank - 1 - place] = pads[2 * place], pads[2 * place + 1]
    call.add("pad", [call.given["self"]], before=before, after=after, value=float(call.get("value", 0.0)))


def _slice(call: Call) -> None:
    axis, end = int(call.get("dim", 0)), int(call.get("end", FAR))
    places = list(range(call.shape()[axis]))[int(call.get("start", 0)) : end : int(call.get("step", 1))]
    call.add("gather", [call.given["self"]], axis=axis, places=places)


def _select(call: Call) -> None:
    axis = int(call.given["dim"])
    call.add("gather", [call.given["self"]], axis=axis, places=int(call.given["index"]) % call.shape()[axis])


def _resize(call: Call) -> None:
    size, factors = call.get("output_size"), call.get("scale_factors")
    if size is None:
        size = [int(n * factor) for n, factor in zip(call.shape(_image(call))[2:], factors, strict=True)]
    call.add("resize", [call.given[_image(call)]], size=list(size))


def _image(call: Call) -> str:
    return "input" if "input" in call.given else "self"


def _cast(call: Call) -> None:
    number = call.get("dtype")
    dtype = TYPES.get(number, torch.float32) if isinstance(number, int) else None
    if dtype is None:
        call.add("identity", [call.given["self"]])
        return
    call.add("cast", [call.given["self"]], dtype=torch.float32 if dtype.is_floating_point else dtype)


def _clamp(call: Call) -> None:
    low = call.get("min", call.get("min_val", -math.inf))
    high = call.get("max", call.get("max_val", math.inf))
    call.add("clip", [call.given["self"]], low=float(low), high=float(high))


def _hardtanh(call: Call) -> None:
    low, high = float(call.get("min_val", -1.0)), float(call.get("max_val", 1.0))
    call.add("clip", [call.given["self"]], low=low, high=high)


def _relu6(call: Call) -> None:
    call.add("clip", [call.given["self"]], low=0.0, high=6.0)


def _gelu(call: Call) -> None:
    if call.get("approximate", "none") != "none":
        raise call.refuse("approximates GELU with tanh, but Genepool's is exact")
    call.add("gelu", [call.given["self"]])


def _leaky_relu(call: Call) -> None:
    call.add("leaky_relu", [call.given["self"]], slope=float(call.get("negative_slope", 0.01)))


def _hard_sigmoid(call: Call) -> None:
    call.add("hard_sigmoid", [call.given["self"]], alpha=1 / 6, beta=0.5)


def _softmax(call: Call) -> None:
    kind = "log_softmax" if "log_softmax" in call.place.rpartition("(")[2] else "softmax"
    call.add(kind, [call.given["self"]], axis=int(call.given["dim"]))


def _size(call: Call) -> None:
    call.builder.constant(call.output, torch.tensor(call.shape()[call.given["dim"]]))


def _dropout(call: Call) -> None:
    if call.get("train", False):
        raise call.refuse("is in training mode; export the network in evaluation mode")
    call.add("identity", [call.given["input"]])


def _binary(operator: str) -> Handler:
    def handle(call: Call) -> None:
        names, alpha = [], call.get("alpha", 1)
        for place, key in enumerate(("self", "other") if "self" in call.given else ("a", "b")):
            value = call.given[key]
            if place and alpha != 1:
                raise call.refuse("scales its second input (alpha), which has no layer in Genepool")
            names.append(value if isinstance(value, str) else f"{call.output}.{key}")
            if not isinstance(value, str):
                call.builder.constant(names[-1], torch.tensor(value))
        call.add(operator, names)

    return handle


def _simple(operator: str, name: str = "self") -> Handler:
    return lambda call: call.add(operator, [call.given[name]])


def _cat(call: Call) -> None:
    call.add("cat", call.given["tensors"], axis=int(call.get("dim", 0)))


def _arange(call: Call) -> None:
    limits = range(int(call.get("start", 0)), int(call.given["end"]), int(call.get("step", 1)))
    if len(limits) > SMALL:
        raise call.refuse("makes too many constants")
    call.builder.constant(call.output, torch.tensor(list(limits)))


def _rsub(call: Call) -> None:
    given = {"self": call.given["other"], "other": call.given["self"]}
    other = f"{call.output}.other"
    if not isinstance(given["self"], str):
        call.builder.constant(other, torch.tensor(given["self"]))
        given["self"] = other
    _binary("sub")(call._replace(given=given | {"alpha": call.get("alpha", 1)}))


def _mm(call: Call) -> None:
    call.add("matmul", [call.given["self"], call.given["mat2"]])


HANDLERS: dict[str, Handler] = {
    "conv2d": _conv, "convolution": _conv, "batch_norm": _batch_norm, "linear": _linear, "addmm": _addmm,
    "_native_batch_norm_legit_no_training": _batch_norm, "max_pool2d": _pool, "max_pool2d_with_indices": _pool,
    "avg_pool2d": _pool, "adaptive_avg_pool2d": _adaptive_pool, "_adaptive_avg_pool2d": _adaptive_pool, "mean": _mean,
    "view": _reshape, "reshape": _reshape, "_unsafe_view": _reshape, "flatten": _flatten, "squeeze": _squeeze,
    "squeeze_": _squeeze, "unsqueeze": _unsqueeze, "permute": _permute, "transpose": _transpose, "t": _transpose,
    "pad": _pad, "constant_pad_nd": _pad, "slice": _slice, "select": _select, "upsample_nearest2d": _resize,
    "to": _cast, "_to_copy": _cast, "clamp": _clamp, "clamp_min": _clamp, "hardtanh": _hardtanh,
    "hardtanh_": _hardtanh, "relu6": _relu6, "relu6_": _relu6, "gelu": _gelu, "leaky_relu": _leaky_relu,
    "leaky_relu_": _leaky_relu, "hardsigmoid": _hard_sigmoid, "hardsigmoid_": _hard_sigmoid, "softmax": _softmax,
    "_softmax": _softmax, "log_softmax": _softmax, "_log_softmax": _softmax, "sym_size": _size, "dropout": _dropout,
    "dropout_": _dropout, "feature_dropout": _dropout, "relu": _simple("relu"), "relu_": _simple("relu"),
    "silu": _simple("silu"), "silu_": _simple("silu"), "sigmoid": _simple("sigmoid"), "tanh": _simple("tanh"),
    "sigmoid_": _simple("sigmoid"), "hardswish": _simple("hard_swish"), "hardswish_": _simple("hard_swish"),
    "erf": _simple("erf"), "neg": _simple("neg"), "clone": _simple("identity"), "contiguous": _simple("identity"),
    "alias": _simple("identity"), "detach": _simple("identity"), "detach_": _simple("identity"),
    "lift_fresh_copy": _simple("identity"), "mm": _mm,
    "matmul": _binary("matmul"), "add": _binary("add"), "add_": _binary("add"), "sub": _binary("sub"),
    "sub_": _binary("sub"), "mul": _binary("mul"), "mul_": _binary("mul"), "div": _binary("div"),
    "div_": _binary("div"), "minimum": _binary("minimum"), "maximum": _binary("maximum"), "cat": _cat,
    "arange": _arange, "rsub": _rsub,
    "floordiv": _binary("floor_div"),
}  # fmt: skip
