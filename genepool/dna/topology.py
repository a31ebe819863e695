"""Graph functions, independent of DNA. A graph is an iterable of arcs, each a pair (from, to) of vertex IDs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

Arc = tuple[str, str]


def _successors(arcs: Iterable[Arc]) -> defaultdict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in arcs:
        found[source].append(target)
    return found


def reachable(start: str, arcs: Iterable[Arc]) -> set[str]:
    """Return all vertices that can be reached from `start`, including itself."""
    successors, seen, todo = _successors(arcs), {start}, [start]
    while todo:
        new = set(successors[todo.pop()]) - seen
        seen |= new
        todo += new
    return seen


def topological_order(vertices: Sequence[str], arcs: Sequence[Arc]) -> tuple[str, ...]:
    """Sort vertices after all their predecessors; ties go by ID, so that the order is unique. Vertices on or behind a
    cycle are left out: the result is shorter than `vertices` exactly if there is a cycle.
    """
    place = {vertex: number for number, vertex in enumerate(vertices)}
    # Usually they are sorted already and each is connected to the next: then there is no other order.
    if all(place[source] < place[target] for source, target in arcs) and set(arcs).issuperset(pairwise(vertices)):
        return tuple(vertices)
    successors, missing = _successors(arcs), Counter(target for _, target in arcs)
    ready = [vertex for vertex in vertices if not missing[vertex]]
    heapify(ready)
    order = []
    while ready:
        order.append(heappop(ready))
        for target in successors[order[-1]]:
            missing[target] -= 1
            if missing[target] == 0:
                heappush(ready, target)
    return tuple(order)
