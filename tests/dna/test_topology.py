"""Graph functions against brute force on small random graphs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from genepool.dna import reachable, topological_order

VERTICES = tuple("abcdef")
GRAPHS = st.sets(st.tuples(st.sampled_from(VERTICES), st.sampled_from(VERTICES)), max_size=12)


def walks(graph: set[tuple[str, str]], start: str) -> set[str]:
    """All ends of walks of any length: repeated squaring by hand, nothing clever."""
    ends = {start}
    for _ in VERTICES:
        ends |= {target for source, target in graph if source in ends}
    return ends


@given(GRAPHS, st.sampled_from(VERTICES))
def test_reachable_is_what_walks_find(graph, start):
    assert reachable(start, graph) == walks(graph, start)


@given(GRAPHS)
def test_an_order_is_complete_exactly_without_a_cycle_and_never_leads_backwards(graph):
    order = topological_order(VERTICES, tuple(graph))
    cyclic = {v for v in VERTICES if any(v in walks(graph, target) for source, target in graph if source == v)}
    behind = {v for v in VERTICES if any(v in walks(graph, c) for c in cyclic)}
    assert set(order) == set(VERTICES) - behind
    place = {vertex: i for i, vertex in enumerate(order)}
    assert all(place[source] < place[target] for source, target in graph if source in place and target in place)


@given(GRAPHS, st.randoms())
def test_one_graph_has_one_order(graph, random):
    shuffled, vertices = list(graph), list(VERTICES)
    random.shuffle(shuffled)
    random.shuffle(vertices)
    assert topological_order(tuple(vertices), tuple(shuffled)) == topological_order(VERTICES, tuple(graph))


def test_a_chain_is_its_own_order():
    assert topological_order(tuple("dcba"), tuple(pairwise("abcd"))) == tuple("abcd")
