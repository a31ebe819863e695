"""Graph functions on plain sets, independent of DNA.

A graph is an iterable of arcs, each a pair (from, to) of vertex IDs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

Arc = tuple[str, str]


def neighbours(arcs: Iterable[Arc]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the successors and predecessors of each vertex that has any."""
    successors: defaultdict[str, list[str]] = defaultdict(list)
    predecessors: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in arcs:
        successors[source].append(target)
        predecessors[target].append(source)
    return successors, predecessors


def reachable(start: str, arcs: Iterable[Arc]) -> set[str]:
    """Return all vertices that can be reached from `start`, including itself."""
    successors, _ = neighbours(arcs)
    seen, todo = {start}, [start]
    while todo:
        for vertex in successors.get(todo.pop(), ()):
            if vertex not in seen:
                seen.add(vertex)
                todo.append(vertex)
    return seen


def topological_order(vertices: Sequence[str], arcs: Sequence[Arc]) -> tuple[str, ...]:
    """Sort vertices after all their predecessors; ties go by ID, so that the order is unique.

    Vertices on or behind a cycle are left out: the result is shorter than `vertices` exactly if there is a cycle.
    """
    place = {vertex: number for number, vertex in enumerate(vertices)}
    # Usually they are sorted already and each is connected to the next: then there is no other order.
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
