"""The initial individual and the hand-designed networks of the paper's Table 1, also known answers in tests."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from genepool.dna.graph import DNA
from genepool.errors import SettingsError
from genepool.layers import SKIP_PRECEDENCE, BatchNormRelu, Conv, Edge, Identity, Linear, Vertex
from genepool.registry import nearest

INPUT = Linear(id="input", inputs_mutable=False, properties_mutable=False)
OUTPUT = Linear(id="output", outputs_mutable=False, properties_mutable=False)


def initial(learning_rate: float = 0.1, body_rate: float = 1.0) -> DNA:
    """The paper's initial individual: one fully connected layer on the channel means, no convolution."""
    trunk = Identity(id="trunk", from_vertex=INPUT.id, to_vertex=OUTPUT.id)
    return DNA(learning_rate=learning_rate, body_rate=body_rate, vertices=(INPUT, OUTPUT), edges=(trunk,))


class _Column:
    """Builds a DNA from the input on, one layer at a time, with numbered IDs."""

    def __init__(self, image_channels: int) -> None:
        self.vertices: list[Vertex] = [INPUT]
        self.edges: list[Edge] = []
        self.top, self.channels = INPUT.id, image_channels

    def conv(self, channels: int, size: int = 3, stride_scale: int = 0, *, active: bool = True) -> str:
        """Add a convolution into a new vertex and return the vertex's ID."""
        number, half = len(self.vertices), (size - 1) / 2
        vertex = (BatchNormRelu if active else Linear)(id=f"v{number}")
        new = Conv(id=f"conv{number}", from_vertex=self.top, to_vertex=vertex.id, stride_scale=float(stride_scale))
        factor = channels / self.channels
        new = replace(new, depth_factor=factor, filter_half_width=half, filter_half_height=half)
        return self._add(vertex, new, channels)

    def activation(self) -> str:
        """Add batch normalisation and a rectifier after a one-to-one connection; return the new vertex's ID."""
        vertex = BatchNormRelu(id=f"v{len(self.vertices)}")
        new = Identity(id=f"one{len(self.vertices)}", from_vertex=self.top, to_vertex=vertex.id)
        return self._add(vertex, new, self.channels)

    def skip(self, start: str) -> None:
        """Connect an earlier vertex to the newest, one-to-one."""
        self._skip(Identity(id=f"skip-{start}-{self.top}", from_vertex=start, to_vertex=self.top))

    def projection(self, start: str, depth_factor: float, stride_scale: int) -> None:
        """Connect an earlier vertex to the newest with a 1x1 convolution."""
        new = Conv(id=f"skip-{start}-{self.top}", from_vertex=start, to_vertex=self.top, depth_factor=depth_factor)
        self._skip(replace(new, filter_half_width=0.0, filter_half_height=0.0, stride_scale=float(stride_scale)))

    def _skip(self, edge: Edge) -> None:
        self.edges.append(replace(edge, depth_precedence=SKIP_PRECEDENCE, scale_precedence=SKIP_PRECEDENCE))

    def _add(self, vertex: Vertex, edge: Edge, channels: int) -> str:
        self.vertices.append(vertex)
        self.edges.append(edge)
        self.top, self.channels = vertex.id, channels
        return vertex.id

    def dna(self, learning_rate: float = 0.1) -> DNA:
        trunk = Identity(id="trunk", from_vertex=self.top, to_vertex=OUTPUT.id)
        return DNA(learning_rate=learning_rate, vertices=(*self.vertices, OUTPUT), edges=(*self.edges, trunk))


def modest(image_channels: int) -> DNA:
    """A network with a single convolution, the starting point of growth."""
    column = _Column(image_channels)
    column.conv(16)
    return column.dna()


def resnet(depth: int, image_channels: int = 3) -> DNA:
    """A pre-activation residual network (He et al., 2016) with zero-padded shortcuts; depth is 6 n + 2."""
    return _residual((depth - 2) // 6, (16, 32, 64), image_channels, projections=False)


def wide_resnet(depth: int = 28, width: int = 10, image_channels: int = 3, *, projections: bool = True) -> DNA:
    """A wide residual network (Zagoruyko and Komodakis, 2016); depth is 6 n + 4. Shortcuts project or pad."""
    return _residual((depth - 4) // 6, (16 * width, 32 * width, 64 * width), image_channels, projections=projections)


def _residual(blocks: int, widths: tuple[int, ...], image_channels: int, *, projections: bool) -> DNA:
    column = _Column(image_channels)
    column.conv(16, active=False)
    for stage, channels in enumerate(widths):
        for block in range(blocks):
            start, before = column.top, column.channels
            activated = column.activation()
            stride_scale = int(stage > 0 and block == 0)
            column.conv(channels, stride_scale=stride_scale)
            column.conv(channels, active=False)
            if projections and channels != before:
                column.projection(activated, channels / before, stride_scale)
            else:
                column.skip(start)
    column.activation()
    return column.dna()


def all_cnn_c(image_channels: int = 3) -> DNA:
    """All-CNN-C (Springenberg et al., 2014) as far as the encoding allows; `PUBLISHED` has the differences."""
    column = _Column(image_channels)
    for channels in (96, 192):
        column.conv(channels)
        column.conv(channels)
        column.conv(channels, stride_scale=1)
    column.conv(192)
    column.conv(192, size=1)
    return column.dna()


ZOO: dict[str, Callable[[int], DNA]] = {
    "initial": lambda image_channels: initial(),
    "resnet-20": lambda image_channels: resnet(20, image_channels),
    "resnet-110": lambda image_channels: resnet(110, image_channels),
    "all-cnn-c": all_cnn_c,
    "wrn-28-10": lambda image_channels: wide_resnet(28, 10, image_channels),
}


def zoo(name: str, image_channels: int = 3) -> DNA:
    if name not in ZOO:
        raise SettingsError(f"There is no network '{name}' in the zoo; {nearest(name, list(ZOO))}")
    return ZOO[name](image_channels)


class Published(msgspec.Struct, frozen=True):
    """A hand-designed network; the keys of its JSON form are documented."""

    title: str
    obstacle: str | None = None
    """Why the encoding cannot express it; None if the network of that name in the zoo does."""
    differences: tuple[str, ...] = ()
    """How the network in the zoo differs from the published one after the paper's mutations."""

    @property
    def text(self) -> str:
        """The obstacle or the differences, in words."""
        if self.obstacle is not None:
            return f"{self.title}: {self.obstacle}"
        return "\n  - ".join((f"What differs from the published {self.title}:", *self.differences))


PRE_ACTIVATION = (
    "Normalisation and rectifier come before each convolution, the pre-activation form; the published network "
    "normalises before it adds the shortcut and rectifies the sum, but a vertex does both at once."
)
PUBLISHED = {
    "maxout": Published(
        "Maxout (Goodfellow et al., 2013)",
        "its units are the maximum of several convolutions, and a vertex can only add its inputs.",
    ),
    "network-in-network": Published(
        "Network in Network (Lin et al., 2013)",
        "it has max pooling between its blocks, and the encoding pools only once, globally, before the output.",
    ),
    "all-cnn-c": Published(
        "All-CNN-C (Springenberg et al., 2014)",
        differences=(
            "Every rectifier follows batch normalisation; the published network has none, but a vertex has both or "
            "neither.",
            "The class scores come from a fully connected layer on 192 pooled channels; the published network pools "
            "ten rectified channels of a 1x1 convolution.",
            "Every convolution is padded; the last 3x3 convolution of the published network is not.",
            "There is no dropout; the published network has it on the images and after each stride of 2.",
        ),
    ),
    "deeply-supervised": Published(
        "Deeply Supervised Nets (Lee et al., 2015)",
        "its hidden layers have classifiers and losses of their own, and a DNA has one output and one loss.",
    ),
    "highway": Published(
        "Highway Networks (Srivastava et al., 2015)",
        "its gates multiply activations by learned factors, and a vertex can only add its inputs.",
    ),
    "resnet-20": Published("ResNet-20 (He et al., 2016)", differences=(PRE_ACTIVATION,)),
    "resnet-110": Published("ResNet-110 (He et al., 2016)", differences=(PRE_ACTIVATION,)),
    "wrn-28-10": Published(
        "Wide ResNet 28-10 (Zagoruyko and Komodakis, 2016)",
        differences=(
            "Its three shortcuts that change the number of channels are identities padded with zeros, as in "
            "ResNet-110; the original has 1x1 convolutions there, which the paper's add-skip cannot make.",
        ),
    ),
    "wrn-40-10-dropout": Published(
        "Wide ResNet 40-10 with dropout (Zagoruyko and Komodakis, 2016)",
        "it has dropout between its convolutions, and no vertex or edge drops activations.",
    ),
    "densenet": Published(
        "DenseNet (Huang et al., 2016)",
        "its layers concatenate the channels of all earlier layers, and a vertex can only add its inputs.",
    ),
}
"""The networks of Table 1 by the names of `genepool reach`, in the table's order, and ResNet-20."""
