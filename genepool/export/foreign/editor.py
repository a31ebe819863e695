"""Rewrites a neutral graph, one rule after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from genepool.export.foreign.graph import Graph, Node

Rule = Callable[["Editor", Node], "Node | list[Node] | str | None"]
"""What a node becomes: one or several nodes, the last with the same output; an earlier value; or (None) itself."""


class Editor:
    """A graph while it is rewritten. Values are known by name; each node's output is one."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = {node.output: node for node in graph.nodes}
        self.constants, self.shapes = dict(graph.constants), dict(graph.shapes)
        self.input, self.output = graph.input, graph.output
        self.uses: Counter[str] = Counter()
        self._count()

    def _count(self) -> None:
        """Drop nodes that nothing needs and count how often each value is used."""
        self.uses = Counter({self.output: 1})
        for node in reversed(list(self.nodes.values())):
            if self.uses[node.output]:
                self.uses.update(node.inputs)
            else:
                del self.nodes[node.output]

    def rewrite(self, rule: Rule) -> None:
        renamed: dict[str, str] = {}
        old, self.nodes = self.nodes, {}
        for node in old.values():
            node = node._replace(inputs=tuple(renamed.get(name, name) for name in node.inputs))
            found = rule(self, node)
            if isinstance(found, str):
                renamed[node.output] = found
            else:
                becomes = found if isinstance(found, list) else [found if found is not None else node]
                self.nodes.update((new.output, new) for new in becomes)
        self.output = renamed.get(self.output, self.output)
        self._count()

    def start_at(self, name: str) -> None:
        """Make a value the input."""
        self.input = name
        self.nodes.pop(name, None)
        self._count()

    def end_at(self, name: str) -> None:
        """Make a value the output."""
        self.output = name
        self._count()

    def maker(self, name: str, *operators: str) -> Node | None:
        """The node that computes a value, if it is one of these operators."""
        node = self.nodes.get(name)
        return node if node is not None and (not operators or node.operator in operators) else None

    def only_maker(self, name: str, *operators: str) -> Node | None:
        """The same, if nothing else uses the value."""
        return self.maker(name, *operators) if self.uses[name] == 1 else None

    def users(self, name: str) -> list[Node]:
        return [node for node in self.nodes.values() if name in node.inputs]

    def tensor(self, name: str) -> Tensor | None:
        return self.constants.get(name)

    def keep(self, name: str, tensor: Tensor) -> str:
        """Add a constant under that name or a free one that begins with it."""
        free, number = name, 0
        while free in self.constants or free in self.shapes:
            number += 1
            free = f"{name}.{number}"
        self.constants[free] = tensor
        return free

    def constant_operand(self, node: Node) -> tuple[str, Tensor, bool] | None:
        """The value and the constant that a node joins, and whether the constant comes second."""
        first, second = node.inputs
        if (tensor := self.tensor(second)) is not None and first not in self.constants:
            return first, tensor, True
        if (tensor := self.tensor(first)) is not None and second not in self.constants:
            return second, tensor, False
        return None


def made(node: Node, operator: str, inputs: Sequence[str], **fields: Any) -> Node:
    """A node in place of another."""
    return Node(operator, tuple(inputs), node.output, fields, node.place)


def by_axis(tensor: Tensor, shape: Sequence[int], axis: int) -> Tensor | None:
    """The numbers along one axis of a constant that is the same along all others; None if it is not."""
    length, rank = shape[axis], len(shape)
    if tensor.numel() == 1:
        return tensor.reshape(1).to(torch.float64).expand(length)
    full = tensor.reshape(*[1] * (rank - tensor.ndim), *tensor.shape) if tensor.ndim <= rank else tensor
    others = [n for place, n in enumerate(full.shape) if place != axis]
    if full.ndim != rank or any(n != 1 for n in others) or full.shape[axis] != length:
        return None
    return full.reshape(-1).to(torch.float64)
