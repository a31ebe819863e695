"""A network layer by layer, with names that a person can follow. Numbers and names only; no torch.

Vertices are numbered along the network, the input is 0. What enters vertex 3 is `conv3` (`conv3a`, `conv3b` where
several convolutions meet), its batch normalisation is `norm3`; the fully connected layer is `classify`.
"""

from __future__ import annotations

from typing import NamedTuple

from genepool.dna import DNA, Conv, Shape, shapes

CLASSIFY = "classify"
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


class Convolution(NamedTuple):
    """A convolution without bias."""

    name: str
    channels_in: int
    channels_out: int
    kernel: tuple[int, int]
    """Height, width."""
    stride: int

    @property
    def padding(self) -> tuple[int, int]:
        return self.kernel[0] // 2, self.kernel[1] // 2


class Term(NamedTuple):
    """What one edge brings to its vertex: the value of an earlier vertex, perhaps through a convolution."""

    source: int
    convolution: Convolution | None
    shape: Shape
    """Before it is made to fit the vertex."""


class Layer(NamedTuple):
    """One vertex: its terms are made to fit, summed, and perhaps normalised and rectified."""

    number: int
    shape: Shape
    terms: tuple[Term, ...]
    """None for the input."""
    norm: str | None
    """The name of its batch normalisation; None for a linear vertex, which has no rectifier either."""
    leakiness: float


def layers(dna: DNA, image: Shape) -> tuple[Layer, ...]:
    """In the order in which they are computed."""
    sizes, place, names = shapes(dna, image), _places(dna), _convolution_names(dna)
    found = []
    for number, vertex in enumerate(dna.vertices):
        terms = []
        for edge in dna.edges_in[vertex.id]:
            convolution = None
            if isinstance(edge, Conv):
                channels = sizes.vertices[edge.from_vertex].channels, sizes.edges[edge.id].channels
                kernel = edge.filter_height, edge.filter_width
                convolution = Convolution(names[edge.id], *channels, kernel, edge.stride)
            terms.append(Term(place[edge.from_vertex], convolution, sizes.edges[edge.id]))
        norm = f"norm{number}" if vertex.type == "bn_relu" else None
        found.append(Layer(number, sizes.vertices[vertex.id], tuple(terms), norm, vertex.leakiness))
    return tuple(found)


def tensor_names(dna: DNA) -> dict[str, str]:
    """The readable name of each tensor, by the name that it has in `genepool.nn.model`."""
    names = {f"edge_{edge}.weight": f"{name}.weight" for edge, name in _convolution_names(dna).items()}
    for number, vertex in enumerate(dna.vertices):
        if vertex.type == "bn_relu":
            names |= {f"vertex_{vertex.id}.{part}": f"norm{number}.{part}" for part in BATCH_NORM}
    return names | {f"classifier_{dna.output}.{part}": f"{CLASSIFY}.{part}" for part in ("weight", "bias")}


def _places(dna: DNA) -> dict[str, int]:
    return {vertex.id: number for number, vertex in enumerate(dna.vertices)}


def _convolution_names(dna: DNA) -> dict[str, str]:
    names = {}
    for vertex, number in _places(dna).items():
        entering = [edge for edge in dna.edges_in[vertex] if isinstance(edge, Conv)]
        for i, edge in enumerate(entering):
            names[edge.id] = f"conv{number}" + (_letters(i) if len(entering) > 1 else "")
    return names


def _letters(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    text = ""
    while True:
        text = chr(ord("a") + number % 26) + text
        number = number // 26 - 1
        if number < 0:
            return text
