"""A network layer by layer with readable names. No torch.

Vertices are numbered in order; the input is 0. The convolution into vertex 3 is `conv3` (`conv3a`, `conv3b` if there
are several), its batch normalisation is `norm3`, and the fully connected layer is `classify`.
"""

from __future__ import annotations

from typing import NamedTuple

from genepool.dna import DNA, Conv, Shape, shapes

CLASSIFY = "classify"
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


class Convolution(NamedTuple):
    name: str
    channels_in: int
    channels_out: int
    kernel: tuple[int, int]
    """Height and width."""
    stride: int

    @property
    def padding(self) -> tuple[int, int]:
        return self.kernel[0] // 2, self.kernel[1] // 2


class Term(NamedTuple):
    """One edge: the value of an earlier vertex, possibly convolved."""

    source: int
    convolution: Convolution | None
    shape: Shape
    """The shape before it is fitted to the vertex."""


class Layer(NamedTuple):
    """One vertex: its terms are fitted and summed, then possibly normalised and rectified."""

    number: int
    shape: Shape
    terms: tuple[Term, ...]
    norm: str | None
    """The name of its batch normalisation; None for a linear vertex, which also has no rectifier."""
    leakiness: float


def layers(dna: DNA, image: Shape) -> tuple[Layer, ...]:
    sizes, names = shapes(dna, image), _convolution_names(dna)
    place = {vertex.id: number for number, vertex in enumerate(dna.vertices)}
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
    """Map each tensor's name in `genepool.nn.model` to its readable name."""
    names = {f"edge_{edge}.weight": f"{name}.weight" for edge, name in _convolution_names(dna).items()}
    for number, vertex in enumerate(dna.vertices):
        if vertex.type == "bn_relu":
            names |= {f"vertex_{vertex.id}.{part}": f"norm{number}.{part}" for part in BATCH_NORM}
    return names | {f"classifier_{dna.output}.{part}": f"{CLASSIFY}.{part}" for part in ("weight", "bias")}


def _convolution_names(dna: DNA) -> dict[str, str]:
    names = {}
    for number, vertex in enumerate(dna.vertices):
        entering = [edge for edge in dna.edges_in[vertex.id] if isinstance(edge, Conv)]
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
