"""Graph questions as pure functions on plain sets; nothing here knows what a DNA is.

A graph is an iterable of arcs, each a pair (from, to) of vertex IDs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

Arc = tuple[str, str]


def neighbours(arcs: Iterable[Arc]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Successors and predecessors of each vertex that has any."""
    successors: defaultdict[str, list[str]] = defaultdict(list)
    predecessors: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in arcs:
        successors[source].append(target)
        predecessors[target].append(source)
    return successors, predecessors


def reachable(start: str, arcs: Iterable[Arc]) -> set[str]:
    """All that can be reached from `start`, itself included."""
    successors, _ = neighbours(arcs)
    seen, todo = {start}, [start]
    while todo:
        for vertex in successors.get(todo.pop(), ()):
            if vertex not in seen:
                seen.add(vertex)
                todo.append(vertex)
    return seen


def topological_order(vertices: Sequence[str], arcs: Sequence[Arc]) -> tuple[str, ...]:
    """The vertices with each after all its predecessors; ties go by ID, so that one graph has one order.

    Vertices on a cycle, or behind one, are left out: the result is shorter than `vertices` exactly if there is a cycle.
    """
    place = {vertex: number for number, vertex in enumerate(vertices)}
    # Mostly they come in order, and each is joined to the next: then there is no other order.
    if all(place[source] < place[target] for source, target in arcs) and set(arcs).issuperset(pairwise(vertices)):
        return tuple(vertices)
    missing = dict.fromkeys(vertices, 0)
    successors: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in arcs:
        successors[source].append(target)
        missing[target] += 1
    ready = [vertex for vertex, count in missing.items() if count == 0]
    heapify(ready)
    order = []
    while ready:
        vertex = heappop(ready)
        order.append(vertex)
        for target in successors.get(vertex, ()):
            missing[target] -= 1
            if missing[target] == 0:
                heappush(ready, target)
    return tuple(order)
