"""DNAs for tests: random ones, grown by the mutations themselves, and small ones written out by hand."""

from __future__ import annotations

from random import Random

from genepool.dna import DNA, INPUT, OUTPUT, Shape, initial, requirements
from genepool.layers import LAYERS, Conv, Edge, Identity
from genepool.mutations import MUTATIONS, mutate

IMAGES = (Shape(28, 28, 1), Shape(32, 32, 3), Shape(96, 64, 3), Shape(17, 31, 3), Shape(8, 8, 1), Shape(1, 1, 3))

EVERY = {name: 0.3 if name.startswith(("remove", "prune")) else 1.0 for name in MUTATIONS.names()}
"""Odds of all mutations; those that remove layers are rarer, so that networks grow."""


def random_dna(seed: int, longest: int = 60) -> DNA:
    """The end of a random chain of mutations from the initial DNA."""
    rng = Random(seed)
    dna = initial()
    for _ in range(rng.randrange(1, longest)):
        dna = mutate(dna, rng).dna
    return dna


def mixed_dna(seed: int, longest: int = 60) -> DNA:
    """The end of a random chain of all mutations there are: layers of all kinds."""
    rng = Random(f"mixed {seed}")
    dna = initial()
    for _ in range(rng.randrange(1, longest)):
        dna = mutate(dna, rng, EVERY).dna
    return dna


def affordable(dna: DNA, image: Shape, batch: int = 2, flops: float = 5e8) -> bool:
    """Whether a test can afford to run the network for real."""
    needs = requirements(dna, image, 10, batch)
    return needs.training.total < flops and needs.memory < 2**30


def chain(*convs: Edge, kind: str = "bn_relu") -> DNA:
    """A backbone of these convolutions, one after another; their ends are set here."""
    vertices, edges, top = [INPUT], [], INPUT.id
    for i, conv in enumerate(convs):
        vertex = LAYERS.get(kind)(id=f"v{i}")
        vertices.append(vertex)
        edges.append(type(conv)(**{**_fields(conv), "from_vertex": top, "to_vertex": vertex.id}))
        top = vertex.id
    trunk = Identity(id="trunk", from_vertex=top, to_vertex=OUTPUT.id)
    return DNA(learning_rate=0.1, vertices=(*vertices, OUTPUT), edges=(*edges, trunk))


def skip(name: str, source: str, target: str) -> Identity:
    """A one-to-one connection beside the backbone."""
    return Identity(id=name, from_vertex=source, to_vertex=target, depth_precedence=0, scale_precedence=0)


def conv(name: str, **numbers: float) -> Conv:
    """A convolution for `chain`."""
    return Conv(id=name, from_vertex="x", to_vertex="x", **numbers)


def _fields(conv: Edge) -> dict:
    return {name: getattr(conv, name) for name in conv.__struct_fields__}
