"""Known architectures, whose weights may come alone: a state dict in safetensors.

Names of tensors are those of torchvision (resnet) and of efficientnet_lite_pytorch (efficientnet-lite0).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from genepool.dna import Shape
from genepool.errors import DataError, shown
from genepool.export.foreign.graph import Builder, Graph
from genepool.export.foreign.sizes import same_pads
from genepool.nn import from_bytes
from genepool.registry import nearest

IMAGE = Shape(224, 224, 3)
PARTS = ("weight", "bias", "running_mean", "running_var")

UNUSED = "num_batches_tracked"


def read_state_dict(path: Path, architecture: str | None, image: Shape | None) -> tuple[Graph, str]:
    """Read the weights of a known architecture as its graph; return its name too. Without a name, it is recognised."""
    if architecture is not None and architecture not in ARCHITECTURES:
        known = nearest(architecture, list(ARCHITECTURES))
        raise DataError(f"there is no architecture '{shown(architecture)}'; {known}")
    tensors = from_bytes(path.read_bytes())
    name = architecture if architecture is not None else _recognised(tensors)
    layers, shape = _Layers(tensors, name), image if image is not None else IMAGE
    layers.builder.image("images", (2, shape.channels, shape.height, shape.width), is_bytes=False)
    graph = layers.builder.graph(ARCHITECTURES[name].build(layers))
    unknown = sorted(each for each in tensors if each not in layers.used and not each.endswith(UNUSED))
    if unknown:
        raise DataError(f"it has the tensor '{shown(unknown[0])}', which {name} has not.")
    return graph, name


def _recognised(tensors: dict[str, Tensor]) -> str:
    """The architecture whose tensors these seem to be."""
    if "_conv_stem.weight" in tensors:
        return "efficientnet-lite0"
    if "layer1.0.conv1.weight" in tensors:
        is_deep = "layer1.2.conv1.weight" in tensors
        bottleneck = "layer1.0.conv3.weight" in tensors
        return "resnet-50" if bottleneck else "resnet-34" if is_deep else "resnet-18"
    raise DataError(
        f"its tensors have not the names of a known architecture, which are {', '.join(ARCHITECTURES)}; export the "
        "network with torch.export or to ONNX instead."
    )


class _Layers:
    """Adds layers by the names of their tensors; each method returns the name of the layer's value."""

    def __init__(self, tensors: dict[str, Tensor], architecture: str) -> None:
        self.builder, self.tensors, self.architecture = Builder(), tensors, architecture
        self.used: set[str] = set()

    def tensor(self, name: str, rank: int) -> str:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.ndim != rank or not tensor.is_floating_point():
            raise DataError(f"it has no tensor '{name}' of {rank} dimensions, as {self.architecture} needs.")
        self.used.add(name)
        if not self.builder.is_constant(name):
            self.builder.constant(name, tensor)
        return name

    def add(self, operator: str, inputs: list[str], name: str, **fields: object) -> str:
        self.builder.add(operator, inputs, f"{name}:{operator}", f"the layer '{name}'", **fields)
        return f"{name}:{operator}"

    def conv(self, x: str, name: str, stride: int = 1, groups: int = 1, *, late: bool = False) -> str:
        weight = self.tensor(f"{name}.weight", 4)
        kernel, strides = self.tensors[weight].shape[2:], (stride, stride)
        half = (kernel[0] // 2, kernel[1] // 2)
        pads = same_pads(self.builder.shape(x)[2:], kernel, strides, lower=False) if late else half * 2
        fields = {"strides": strides, "pads": pads, "dilations": (1, 1), "groups": groups}
        return self.add("conv", [x, weight, ""], name, **fields)

    def norm(self, x: str, name: str, epsilon: float) -> str:
        return self.add("batch_norm", [x, *(self.tensor(f"{name}.{part}", 1) for part in PARTS)], name, epsilon=epsilon)

    def relu(self, x: str) -> str:
        return self.add("relu", [x], x)

    def relu6(self, x: str) -> str:
        return self.add("clip", [x], x, low=0.0, high=6.0)

    def sum(self, x: str, y: str) -> str:
        return self.add("add", [x, y], x)

    def has(self, name: str) -> bool:
        return f"{name}.weight" in self.tensors

    def classified(self, x: str, name: str) -> str:
        means = self.add("mean", [x], "pooling", axes=[2, 3], keep=False)
        return self.add("linear", [means, self.tensor(f"{name}.weight", 2), self.tensor(f"{name}.bias", 1)], name)


def _resnet(layers: _Layers, counts: tuple[int, ...], convolutions: int) -> str:
    """A residual network (He et al., 2015): blocks of two 3x3 convolutions, or three of which the second is 3x3."""
    x = layers.relu(layers.norm(layers.conv("images", "conv1", 2), "bn1", 1e-5))
    x = layers.add("max_pool", [x], "maxpool", kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    for stage, count in enumerate(counts, 1):
        for block in range(count):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            x = _residual(layers, x, name, stride, convolutions)
    return layers.classified(x, "fc")


def _residual(layers: _Layers, x: str, name: str, stride: int, convolutions: int) -> str:
    y, strided = x, convolutions - 1  # the 3x3 convolution of a bottleneck, else the first
    for number in range(1, convolutions + 1):
        y = layers.conv(y, f"{name}.conv{number}", stride if number == strided else 1)
        y = layers.norm(y, f"{name}.bn{number}", 1e-5)
        y = layers.relu(y) if number < convolutions else y
    if layers.has(f"{name}.downsample.0"):
        x = layers.norm(layers.conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1", 1e-5)
    return layers.relu(layers.sum(y, x))


class _Stage(NamedTuple):
    blocks: int
    stride: int


LITE0 = (_Stage(1, 1), _Stage(2, 2), _Stage(2, 2), _Stage(3, 2), _Stage(3, 1), _Stage(4, 2), _Stage(1, 1))


def _lite0(layers: _Layers) -> str:
    """EfficientNet-Lite0 (Tan, 2020), which pads as TensorFlow does."""
    x = layers.relu6(layers.norm(layers.conv("images", "_conv_stem", 2, late=True), "_bn0", 1e-3))
    number = 0
    for stage in LITE0:
        for block in range(stage.blocks):
            x = _inverted(layers, x, f"_blocks.{number}", stage.stride if block == 0 else 1, block > 0)
            number += 1
    x = layers.relu6(layers.norm(layers.conv(x, "_conv_head"), "_bn1", 1e-3))
    return layers.classified(x, "_fc")


def _inverted(layers: _Layers, x: str, name: str, stride: int, has_skip: bool) -> str:
    """An inverted residual block (Sandler et al., 2018)."""
    y = x
    if layers.has(f"{name}._expand_conv"):
        y = layers.relu6(layers.norm(layers.conv(y, f"{name}._expand_conv"), f"{name}._bn0", 1e-3))
    y = layers.conv(y, f"{name}._depthwise_conv", stride, layers.builder.shape(y)[1], late=True)
    y = layers.relu6(layers.norm(y, f"{name}._bn1", 1e-3))
    y = layers.norm(layers.conv(y, f"{name}._project_conv"), f"{name}._bn2", 1e-3)
    return layers.sum(y, x) if has_skip else y


class Architecture(NamedTuple):
    """A known network and what its published weights expect of images."""

    build: Callable[[_Layers], str]
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)


ARCHITECTURES = {
    "resnet-18": Architecture(lambda layers: _resnet(layers, (2, 2, 2, 2), 2)),
    "resnet-34": Architecture(lambda layers: _resnet(layers, (3, 4, 6, 3), 2)),
    "resnet-50": Architecture(lambda layers: _resnet(layers, (3, 4, 6, 3), 3)),
    "efficientnet-lite0": Architecture(_lite0, mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
}
