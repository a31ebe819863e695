"""The kind `squeeze_excitation`: channels weighted by what the image as a single pixel shows (Hu et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from genepool.layers.base import LAYERS, Bounds, Graph, Operation, Vertex, Weight, round_half_up
from genepool.layers.flops import Flops, Shape

if TYPE_CHECKING:
    from torch import Tensor

    from genepool.layers.tensors import Tensors

START = 2.0  # the gates of a new network: nearly open, and not where the gate's gradient vanishes
OPEN = {"sigmoid": 4.0, "hard_sigmoid": 2.9999}
"""The largest biases at which gates still learn: they let through 98.2 % and 99.998 %."""
PARTS = ("reduce_weight", "reduce_bias", "expand_weight", "expand_bias")
FUNCTIONS = {"relu": "relu", "silu": "silu", "sigmoid": "sigmoid", "hard_sigmoid": "hardsigmoid"}
"""Their names in `torch.nn.functional`."""

CLASS = '''
class SqueezeExcitation(nn.Module):
    """Multiply each channel by a gate between 0 and 1, which two fully connected layers compute from channel means."""

    def __init__(self, channels, squeezed, activation, gate):
        super().__init__()
        self.reduce_weight = nn.Parameter(torch.empty(squeezed, channels))
        self.reduce_bias = nn.Parameter(torch.empty(squeezed))
        self.expand_weight = nn.Parameter(torch.empty(channels, squeezed))
        self.expand_bias = nn.Parameter(torch.empty(channels))
        self.activation, self.gate = activation, gate

    def forward(self, x):
        squeezed = self.activation(functional.linear(x.mean((2, 3)), self.reduce_weight, self.reduce_bias))
        return x * self.gate(functional.linear(squeezed, self.expand_weight, self.expand_bias))[:, :, None, None]
'''


@LAYERS.register("squeeze_excitation")
class SqueezeExcitation(Vertex, frozen=True, kw_only=True, tag="squeeze_excitation", omit_defaults=True, gc=False):
    """Multiplies each channel by a gate between 0 and 1, computed from the means of all channels.

    Differs from the paper, where no vertex sees more than one pixel.
    """

    reduction: float = 4.0
    """The channels divided by those between the two fully connected layers."""
    activation: Literal["relu", "silu"] = "relu"
    gate: Literal["sigmoid", "hard_sigmoid"] = "sigmoid"

    SYMBOL: ClassVar[str] = "SE"
    BOUNDS: ClassVar[Bounds] = {"reduction": (1.0, 1e6)}

    @property
    def title(self) -> str:
        return f"squeeze-excitation 1/{self.reduction:g}"

    def squeezed(self, channels: int) -> int:
        return max(1, round_half_up(channels / self.reduction))

    def weights(self, source: Shape) -> dict[str, Weight]:
        channels, squeezed = source.channels, self.squeezed(source.channels)
        return {
            "reduce_weight": Weight((squeezed, channels), "normal", fan_in=channels),
            "reduce_bias": Weight((squeezed,)),
            "expand_weight": Weight((channels, squeezed)),
            "expand_bias": Weight((channels,), START),
        }

    def flops(self, source: Shape, batch: int) -> Flops:
        n, channels, squeezed = batch * source.values, batch * source.channels, batch * self.squeezed(source.channels)
        layers = 4 * squeezed * source.channels
        return Flops(matrix=layers, elementwise=n + 3 * channels + 2 * squeezed, reduction=n)

    def training_flops(self, source: Shape, batch: int, input_gradient: bool) -> Flops:
        n, channels, squeezed = batch * source.values, batch * source.channels, batch * self.squeezed(source.channels)
        layer = 2 * squeezed * source.channels
        gates = Flops(matrix=3 * layer, elementwise=n + channels + squeezed, reduction=n + channels + squeezed)
        inputs = Flops(matrix=layer, elementwise=2 * n + channels) if input_gradient else Flops()
        return self.flops(source, batch) + gates + inputs

    def kept(self, source: Shape) -> int:
        return source.values + 2 * source.channels + 3 * self.squeezed(source.channels)

    def multiplications(self, source: Shape) -> float:
        return float(2 * source.channels * self.squeezed(source.channels))

    def operation(self, tensors: Tensors) -> Operation:
        from torch.nn import functional

        activation, gate = (getattr(functional, FUNCTIONS[name]) for name in (self.activation, self.gate))

        def excite(x: Tensor) -> Tensor:
            squeezed = activation(functional.linear(x.mean((2, 3)), tensors.reduce_weight, tensors.reduce_bias))
            gates: Tensor = gate(functional.linear(squeezed, tensors.expand_weight, tensors.expand_bias))
            return x * gates[:, :, None, None]

        return excite

    def passes_on(self, source: Shape) -> bool:
        return self.gate == "hard_sigmoid"

    def pass_on(self, tensors: Tensors, source: Shape) -> None:
        tensors.expand_bias.fill_(OPEN[self.gate])

    def source_class(self) -> str:
        return CLASS

    def source_definition(self, source: Shape) -> str:
        functions = f"functional.{FUNCTIONS[self.activation]}, functional.{FUNCTIONS[self.gate]}"
        return f"SqueezeExcitation({source.channels}, {self.squeezed(source.channels)}, {functions})"

    def onnx(self, graph: Graph, x: str, name: str, tensors: Mapping[str, Tensor], source: Shape) -> str:
        import numpy as np

        parts = [graph.weight(f"{name}.{part}", tensors[part]) for part in PARTS]
        means = graph.node("Flatten", [graph.node("GlobalAveragePool", [x], f"{name}.means")], f"{name}.flat")
        squeezed = graph.node("Gemm", [means, *parts[:2]], f"{name}.reduce", transB=1)
        active = graph.node("Relu", [squeezed], f"{name}.active") if self.activation == "relu" else None
        if active is None:
            sigmoid = graph.node("Sigmoid", [squeezed], f"{name}.sigmoid")
            active = graph.node("Mul", [squeezed, sigmoid], f"{name}.active")
        expanded = graph.node("Gemm", [active, *parts[2:]], f"{name}.expand", transB=1)
        kind, slope = ("Sigmoid", {}) if self.gate == "sigmoid" else ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5})
        gates = graph.node(kind, [expanded], f"{name}.gates", **slope)
        axes = graph.weight(f"{name}.axes", np.array([2, 3]))
        return graph.node("Mul", [x, graph.node("Unsqueeze", [gates, axes], f"{name}.each")], name)
