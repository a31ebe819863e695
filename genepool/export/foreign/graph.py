"""The neutral graph of a network from elsewhere: operators and constants, whatever the file's format.

A `Builder` collects it node by node in topological order. It finds the shape of every value without computing it, and
computes what depends on constants alone, such as the target of a reshape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from genepool.errors import DataError, shown
from genepool.export.foreign.operators import FREE, OPERATORS

MAX_NODES = 5_000
MAX_CONSTANTS = 4 * MAX_NODES  # in memory, a small one takes many times its length in the file
MAX_VALUES = 2**28  # in one activation
MAX_WINDOW = 1001  # pixels that a filter, a pool or a padding may span
SMALL = 2**22  # values that may be made from nothing, such as the target of a reshape
TORCH_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, ArithmeticError, AttributeError)


class Node(NamedTuple):
    """One operator. An empty input name is an input that is left out."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    fields: Mapping[str, Any]
    place: str
    """The node in words, for messages."""


class Graph(NamedTuple):
    """A network with one input and one output; nodes are in topological order."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Tensor]
    shapes: Mapping[str, tuple[int, ...]]
    """The shape of every value for batches of the size that `shapes[input]` has."""
    input: str
    output: str
    is_bytes: bool
    """Whether images are uint8 instead of floats."""

    def run(self, images: Tensor) -> Tensor:
        """Compute the output; values are freed after their last use."""
        values: dict[str, Tensor] = {self.input: images}
        last = self._last_uses()
        for place, node in enumerate(self.nodes):
            given = [values[name] if name in values else self.constants.get(name) for name in node.inputs]
            with refusing(node.place):
                values[node.output] = OPERATORS[node.operator](given, node.fields)
            for name in node.inputs:
                if last[name] == place and name != self.output:
                    values.pop(name, None)
        return values[self.output]

    def _last_uses(self) -> dict[str, int]:
        return {name: place for place, node in enumerate(self.nodes) for name in node.inputs}

    @property
    def memory(self) -> int:
        """The most bytes that its values take at a time."""
        sizes = {name: 4 * math.prod(self.shapes[name]) for name in (self.input, *(n.output for n in self.nodes))}
        last, alive, most = self._last_uses(), sizes[self.input], 0
        for place, node in enumerate(self.nodes):
            alive += sizes[node.output]
            most = max(most, alive)
            alive -= sum(sizes.get(name, 0) for name in set(node.inputs) if last[name] == place)
        return most


@contextmanager
def refusing(place: str) -> Iterator[None]:
    """Turn torch's errors into one sentence that names the node."""
    try:
        yield
    except TORCH_ERRORS as error:
        reason = shown((str(error).splitlines() or [type(error).__name__])[0])
        raise DataError(f"{place} cannot be computed ({reason}).") from None


class Builder:
    """Collects the nodes of a graph."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Tensor] = {}
        self._values: dict[str, Tensor] = {}  # without numbers: only shapes and types
        self._input: str | None = None
        self._read = self._made = 0  # constant values read and computed so far

    def image(self, name: str, shape: Sequence[int], *, is_bytes: bool) -> None:
        """Declare the input."""
        if self._input is not None:
            raise DataError("it has several inputs; Genepool's networks take images only.")
        if len(shape) != 4 or min(shape) < 1:
            raise DataError(f"its input has the shape {_text(shape)}, which is not a batch of images.")
        self._input = name
        dtype = torch.uint8 if is_bytes else torch.float32
        with refusing("its input"):
            images = torch.empty(tuple(shape), dtype=dtype, device="meta")
        self._keep(name, images, "its input")

    def constant(self, name: str, tensor: Tensor, *, is_read: bool = True) -> None:
        """Add a constant; all floating-point types become float32."""
        if len(self.constants) >= MAX_CONSTANTS:
            raise DataError(f"it has more than {MAX_CONSTANTS} constants.")
        self._read += tensor.numel() if is_read else 0
        if tensor.is_floating_point():
            tensor = tensor.detach().to(torch.float32)
            if not bool(torch.isfinite(tensor).all()) and tensor.numel() > 1:
                raise DataError(f"its weights '{shown(name)}' contain values that are not finite.")
        self.constants[name] = tensor
        self._values[name] = tensor.to("meta")

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._value(name, "an output").shape)

    def is_constant(self, name: str) -> bool:
        return name in self.constants

    def number(self, name: str, place: str) -> Tensor:
        """The numbers of a value that must be constant."""
        if not name:
            raise DataError(f"{place} lacks an input.")
        if name not in self.constants:
            raise DataError(f"{place} depends on the images in a way that has no layer in Genepool.")
        return self.constants[name]

    def add(self, operator: str, inputs: Sequence[str], output: str, place: str, **fields: Any) -> None:
        """Add a node, or the constant that it computes."""
        if len(self.nodes) >= MAX_NODES or len(self._values) > 10 * MAX_NODES:
            raise DataError(f"it has more than {MAX_NODES} nodes.")
        if output in self._values:
            raise DataError(f"{place} computes '{shown(output)}', which exists already.")
        given = [self._value(name, place) if name else None for name in inputs]
        with refusing(place), torch.no_grad():
            _check_window(given, fields, place)
            result = OPERATORS[operator](given, fields)
        if all(name in self.constants for name in inputs if name):
            self._compute(operator, inputs, output, place, fields, result.numel())
            return
        self._keep(output, result, place)
        self.nodes.append(Node(operator, tuple(inputs), output, fields, place))

    def _compute(
        self, operator: str, inputs: Sequence[str], output: str, place: str, fields: Mapping[str, Any], size: int
    ) -> None:
        given = [self.constants[name] if name else None for name in inputs]
        self._made += 0 if operator in FREE else size
        if self._made > SMALL + 4 * self._read:
            raise DataError(f"{place} makes too many constants.")
        with refusing(place), torch.no_grad():
            result = OPERATORS[operator](given, fields)
        self.constant(output, result, is_read=False)

    def _keep(self, name: str, value: Tensor, place: str) -> None:
        if value.numel() > MAX_VALUES:
            raise DataError(f"{place} has a value of the shape {_text(value.shape)}, which is too large.")
        if value.numel() < 1:
            raise DataError(f"{place} has a value of the shape {_text(value.shape)}, which is empty.")
        self._values[name] = value

    def _value(self, name: str, place: str) -> Tensor:
        if name not in self._values:
            raise DataError(f"{place} uses '{shown(name)}' before it is computed; a graph must not have cycles.")
        return self._values[name]

    def graph(self, output: str) -> Graph:
        """The graph without nodes that the output does not need."""
        if self._input is None:
            raise DataError("it has no input for images.")
        self._value(output, "its output")
        needed, nodes = {output}, []
        for node in reversed(self.nodes):
            if node.output in needed:
                nodes.append(node)
                needed.update(node.inputs)
        if self._input not in needed:
            raise DataError("its output does not depend on its input.")
        constants = {name: tensor for name, tensor in self.constants.items() if name in needed}
        shapes = {name: tuple(value.shape) for name, value in self._values.items() if name in needed}
        is_bytes = self._values[self._input].dtype == torch.uint8
        return Graph(tuple(reversed(nodes)), constants, shapes, self._input, output, is_bytes)


def _check_window(given: Sequence[Tensor | None], fields: Mapping[str, Any], place: str) -> None:
    """Refuse windows and padding that would take much memory before anything is computed."""
    numbers = [n for name in ("kernel", "pads", "dilations", "strides") for n in fields.get(name, ())]
    if numbers and max(map(abs, numbers)) > MAX_WINDOW:
        raise DataError(f"{place} has windows or padding of more than {MAX_WINDOW} pixels.")
    if (pads := fields.get("pads")) and given[0] is not None and given[0].ndim == 4:
        batch, channels, height, width = given[0].shape
        if batch * channels * (height + pads[0] + pads[2]) * (width + pads[1] + pads[3]) > MAX_VALUES:
            raise DataError(f"{place} pads its input to more than {MAX_VALUES} values.")


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "()"
