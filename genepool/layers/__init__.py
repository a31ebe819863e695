"""Kinds of layers, one file each: DNA fields, shape, FLOPs and memory, torch, inheritance, export, drawing.

base         what every kind says about itself; the registry
flops        shapes, FLOPs and memory of one layer
tensors      the tensors of one layer in torch
missing      layers of kinds that this process lacks
plugins      kinds of plugins: when they are accepted, and whose fault an error is

The paper's four kinds:

convolution  `conv`
identity     `identity`
linear       `linear`
batch_norm   `bn_relu`, and the base of all kinds that normalise

Kinds beyond the paper:

window                 the base of convolutions and poolings: sizes, strides, padding
grouped_convolution    `grouped_conv`
depthwise_convolution  `depthwise_conv`
separable_convolution  `separable_conv`
pooling                `max_pool`, `average_pool`
normalised             `bn`, `bn_relu6`, `bn_silu`, `bn_gelu`, `bn_hard_swish`
rectifiers             `relu`, `relu6`, `silu`, `gelu`, `hard_swish`: the functions alone
affine                 `affine`
squeeze_excitation     `squeeze_excitation`
"""

from genepool.layers.affine import Affine
from genepool.layers.base import (
    BACKBONE_PRECEDENCE,
    LAYERS,
    PRECEDENCE_BOUNDS,
    SKIP_PRECEDENCE,
    Edge,
    Graph,
    Layer,
    Operation,
    Vertex,
    Weight,
    round_half_up,
)
from genepool.layers.batch_norm import DECAY, EPSILON, BatchNormRelu, Normalisation
from genepool.layers.convolution import Conv
from genepool.layers.depthwise_convolution import DepthwiseConv
from genepool.layers.flops import Flops, Item, Shape, update
from genepool.layers.grouped_convolution import GroupedConv
from genepool.layers.identity import Identity
from genepool.layers.linear import Linear
from genepool.layers.missing import (
    MissingEdge,
    MissingVertex,
    is_convolution,
    is_missing,
    missing_among,
    missing_error,
    with_placeholders,
    written,
)
from genepool.layers.normalised import (
    BatchNorm,
    BatchNormGelu,
    BatchNormHardSwish,
    BatchNormRelu6,
    BatchNormSilu,
    NormalisedActivation,
)
from genepool.layers.plugins import blaming, fault_of, label_of, plugin_kinds, title_of
from genepool.layers.pooling import AveragePool, MaxPool, Pool
from genepool.layers.rectifiers import Activation, Gelu, HardSwish, Rectifier, Relu, Relu6, Silu
from genepool.layers.separable_convolution import SeparableConv
from genepool.layers.squeeze_excitation import SqueezeExcitation
from genepool.layers.window import Filtered, Pads, Window

__all__ = [
    "LAYERS", "Layer", "Edge", "Vertex", "Weight", "Operation", "Graph", "Shape", "Flops", "Item", "update",
    "BACKBONE_PRECEDENCE", "SKIP_PRECEDENCE", "PRECEDENCE_BOUNDS", "round_half_up",
    # the paper's kinds
    "Conv", "Identity", "Linear", "BatchNormRelu", "Normalisation", "DECAY", "EPSILON",
    # kinds beyond the paper, and their bases
    "Window", "Pads", "Filtered", "GroupedConv", "DepthwiseConv", "SeparableConv", "Pool", "MaxPool", "AveragePool",
    "NormalisedActivation", "BatchNorm", "BatchNormRelu6", "BatchNormSilu", "BatchNormGelu", "BatchNormHardSwish",
    "Activation", "Rectifier", "Relu", "Relu6", "Silu", "Gelu", "HardSwish", "Affine", "SqueezeExcitation",
    # kinds that this process lacks
    "MissingEdge", "MissingVertex", "is_missing", "missing_among", "is_convolution", "missing_error",
    "with_placeholders", "written",
    # kinds of plugins
    "blaming", "fault_of", "label_of", "plugin_kinds", "title_of",
]  # fmt: skip
