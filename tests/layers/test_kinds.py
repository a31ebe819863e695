"""Each kind of layer beyond the paper against its operation written out plainly, in NumPy or element by element."""

import math

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from genepool.dna import Shape
from genepool.layers import (
    LAYERS,
    Affine,
    AveragePool,
    BatchNormRelu6,
    Conv,
    DepthwiseConv,
    GroupedConv,
    MaxPool,
    SeparableConv,
    SqueezeExcitation,
)
from genepool.layers.tensors import Tensors
from genepool.nn import Model
from genepool.nn.inheritance import inherit_function
from tests.support.networks import chain, conv

SIZES = [(1, 1), (5, 4), (8, 8), (9, 7), (12, 5)]
ENDS = dict(id="e", from_vertex="a", to_vertex="b")


def images(height=9, width=7, channels=6, seed=0):
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(seed))


def tensors_of(layer, channels=6, seed=0):
    """Fresh tensors with random values."""
    tensors = Tensors(layer.weights(Shape(9, 7, channels)))
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in tensors.state_dict().values():
            tensor.copy_(torch.randn(tensor.shape, generator=rng))
    return tensors


def computed(layer, x, tensors=None):
    with torch.no_grad():
        return layer.operation(tensors or Tensors({}))(x.clone()).numpy()


def tensorflow_padding(pixels, size, stride):
    """The rule for SAME in TensorFlow's documentation, as it stands there."""
    total = max(size - stride, 0) if pixels % stride == 0 else max(size - (pixels % stride), 0)
    return total // 2, total - total // 2


def usual_padding(pixels, size, stride):
    return (size - 1) // 2, size // 2


def windows(x, size, stride, rule, value):
    """Yield every output pixel's place and its window (batch, channels, height, width) of the padded images."""
    height, width = x.shape[2:]
    pads = [rule(pixels, side, stride) for pixels, side in zip((height, width), size, strict=True)]
    padded = np.pad(x, ((0, 0), (0, 0), *pads), constant_values=value)
    for i in range(math.ceil(height / stride)):
        for j in range(math.ceil(width / stride)):
            yield i, j, padded[:, :, i * stride : i * stride + size[0], j * stride : j * stride + size[1]]


def convolved(x, filters, stride, rule, groups):
    """A convolution by its definition: a sum of products for each group, output channel and pixel."""
    x, filters = x.numpy(), filters.detach().numpy()
    out, seen = filters.shape[:2]
    height, width = (math.ceil(pixels / stride) for pixels in x.shape[2:])
    y = np.zeros((len(x), out, height, width), dtype=np.float32)
    for i, j, window in windows(x, filters.shape[2:], stride, rule, 0.0):
        for channel in range(out):
            first = channel // (out // groups) * seen
            y[:, channel, i, j] = (window[:, first : first + seen] * filters[channel]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_convolutions_are_sums_of_products(size, stride, late):
    rule, scale = tensorflow_padding if late else usual_padding, math.log2(stride)
    for half_height, half_width in ((0, 0), (1, 1), (2, 1)):
        numbers = dict(filter_half_height=half_height, filter_half_width=half_width, stride_scale=scale, late=late)
        grouped = GroupedConv(**ENDS, groups=3.0, depth_factor=1.5, **numbers)
        for layer, groups in ((grouped, 3), (replace(grouped, groups=1.0), 1), (DepthwiseConv(**ENDS, **numbers), 6)):
            x, tensors = images(*size), tensors_of(layer)
            wanted = convolved(x, tensors.weight, stride, rule, groups)
            assert np.allclose(computed(layer, x, tensors), wanted, atol=1e-4)
            assert wanted.shape[1:] == tuple(layer.result(Shape(*size, 6))[i] for i in (2, 0, 1))


def test_late_padding_is_what_tensorflow_documents():
    """224 pixels, 3x3, stride 2: no pixel before, one after. Written out by hand."""
    layer = DepthwiseConv(**ENDS, stride_scale=1.0, late=True)
    assert layer.pads(224, 224) == (0, 1, 0, 1)
    assert layer.pads(225, 5) == (1, 1, 1, 1)
    assert replace(layer, filter_half_width=2.0).pads(224, 6) == (0, 1, 1, 2)
    assert replace(layer, filter_half_width=0.0, filter_half_height=0.0).pads(7, 8) == (0, 0, 0, 0)
    for size in range(1, 30):
        for half in range(4):
            for scale in range(4):
                edge = replace(layer, filter_half_height=float(half), stride_scale=float(scale))
                assert edge.pads(size, 1)[:2] == tensorflow_padding(size, 2 * half + 1, 2**scale)


@pytest.mark.parametrize(("field", "channels", "factor", "groups"), [
    (1.0, 6, 1.0, 1), (4.0, 6, 1.0, 2), (6.0, 6, 0.5, 3), (2.6, 6, 2.0, 3), (1e6, 8, 1.0, 8), (5.0, 6, 1.0, 1),
])  # fmt: skip
def test_the_groups_divide_all_channels(field, channels, factor, groups):
    layer = GroupedConv(**ENDS, groups=field, depth_factor=factor)
    assert layer.group_count(channels) == groups
    assert layer.weights(Shape(4, 4, channels))["weight"].shape[1] == channels // groups


@pytest.mark.parametrize("stride", [1, 2])
def test_a_separable_convolution_is_two_convolutions(stride):
    layer = SeparableConv(**ENDS, depth_factor=0.5, filter_half_width=2.0, stride_scale=math.log2(stride))
    x, tensors = images(), tensors_of(layer)
    between = torch.from_numpy(convolved(x, tensors.depthwise, stride, usual_padding, 6))
    assert np.allclose(
        computed(layer, x, tensors), convolved(between, tensors.pointwise, 1, usual_padding, 1), atol=1e-4
    )


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5, 12])
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_poolings_are_maxima_and_means_of_real_pixels(size, stride, side):
    x = images(*size)
    for kind, reduce in ((MaxPool, np.nanmax), (AveragePool, np.nanmean)):
        layer = kind(**ENDS, size=float(side), stride_scale=math.log2(stride))
        found = computed(layer, x)
        for i, j, window in windows(x.numpy(), (side, side), stride, usual_padding, np.nan):
            assert np.allclose(found[:, :, i, j], reduce(window, axis=(2, 3)), atol=1e-5)
        assert found.shape[2:] == tuple(math.ceil(pixels / stride) for pixels in size)


FUNCTIONS = {
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "hard_swish": lambda x: x * min(max((x + 3) / 6, 0.0), 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_alone_and_after_normalisation(name):
    x = 4 * images()
    wanted = np.vectorize(FUNCTIONS[name])(x.numpy())
    assert np.allclose(computed(LAYERS.get(name)(id="v"), x), wanted, atol=1e-5)
    if name == "relu":
        return
    layer = LAYERS.get(f"bn_{name}")(id="v")
    tensors = tensors_of(layer)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    scale = tensors.weight.detach() / torch.sqrt(variance + 0.001)
    normalised = (x - mean.view(-1, 1, 1)) * scale.view(-1, 1, 1) + tensors.bias.detach().view(-1, 1, 1)
    wanted = np.vectorize(FUNCTIONS[name])(normalised.numpy())
    assert np.allclose(computed(layer, x, tensors), wanted, atol=1e-4)


def test_bn_alone_normalises():
    layer, x = LAYERS.get("bn")(id="v"), images()
    found = computed(layer, 3 * x + 5, Tensors(layer.weights(Shape(9, 7, 6))))
    assert np.allclose(found.mean((0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(found.std((0, 2, 3)), 1, atol=1e-3)


def test_affine_multiplies_and_adds():
    layer, x = Affine(id="v"), images()
    tensors = tensors_of(layer)
    for channel, found in enumerate(np.moveaxis(computed(layer, x, tensors), 1, 0)):
        assert np.allclose(
            found, x[:, channel] * tensors.weight[channel].item() + tensors.bias[channel].item(), atol=1e-6
        )


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("gate", ["sigmoid", "hard_sigmoid"])
def test_squeeze_excitation_weights_channels(activation, gate):
    gates = {"sigmoid": lambda x: 1 / (1 + math.exp(-x)), "hard_sigmoid": lambda x: min(max(x / 6 + 0.5, 0.0), 1.0)}
    layer, x = SqueezeExcitation(id="v", reduction=2.0, activation=activation, gate=gate), images()
    tensors = tensors_of(layer)
    t = {name: tensor.numpy() for name, tensor in tensors.state_dict().items()}
    assert t["reduce_weight"].shape == (3, 6)
    found = computed(layer, x, tensors)
    for number, image in enumerate(x.numpy()):
        squeezed = t["reduce_weight"] @ image.mean((1, 2)) + t["reduce_bias"]
        squeezed = np.vectorize(FUNCTIONS[activation])(squeezed)
        opened = np.vectorize(gates[gate])(t["expand_weight"] @ squeezed + t["expand_bias"])
        assert np.allclose(found[number], image * opened[:, None, None], atol=1e-5)


@pytest.mark.parametrize(("channels", "reduction", "squeezed"), [(8, 4.0, 2), (3, 4.0, 1), (1, 1e6, 1), (10, 4.0, 3)])
def test_squeezed_channels_are_rounded(channels, reduction, squeezed):
    assert SqueezeExcitation(id="v", reduction=reduction).squeezed(channels) == squeezed


def test_a_new_squeeze_excitation_is_nearly_open_and_learns():
    for gate, least in (("sigmoid", 0.85), ("hard_sigmoid", 0.8)):
        layer, x = SqueezeExcitation(id="v", gate=gate), images()
        tensors = Tensors(layer.weights(Shape(9, 7, 6)))
        torch.nn.init.normal_(tensors.reduce_weight)
        found = layer.operation(tensors)(x)
        assert (found / x).min() > least
        found.square().sum().backward()
        assert tensors.expand_weight.grad.any() and tensors.expand_bias.grad.any()
        with torch.no_grad():
            layer.pass_on(tensors, Shape(9, 7, 6))
        tensors.expand_bias.grad = None
        found = layer.operation(tensors)(x)
        assert (found / x).min() > {"sigmoid": 0.98, "hard_sigmoid": 0.9999}[gate]
        found.square().sum().backward()
        assert tensors.expand_bias.grad.any()


# Inheritance


IMAGE = Shape(8, 8, 3)


def heirs(parent_dna, child_dna):
    """The scores of a parent and of its child before any training."""
    parent = Model(parent_dna, IMAGE, 5, torch.Generator().manual_seed(0)).eval()
    child = Model(child_dna, IMAGE, 5, torch.Generator().manual_seed(1))
    x = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    inherit_function(child, parent.state_dict(), x)
    with torch.no_grad():
        return parent(x), child.eval()(x)


def grown(layer, factor=4.0):
    return chain(conv("first", depth_factor=factor), layer, conv("last"), kind="linear")


def grouped(groups, **numbers):
    return GroupedConv(id="e", from_vertex="x", to_vertex="x", groups=groups, **numbers)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (grouped(4.0), grouped(1.0)),  # larger groups contain the smaller ones
        (grouped(4.0), grouped(2.0)),
        (grouped(12.0), grouped(4.0)),
        (grouped(4.0), grouped(4.0, filter_half_width=2.0)),
        (DepthwiseConv(**ENDS), grouped(3.0)),
        (DepthwiseConv(**ENDS), DepthwiseConv(**ENDS, filter_half_height=3.0)),
        (SeparableConv(**ENDS), SeparableConv(**ENDS, filter_half_height=3.0)),
    ],
)
def test_larger_groups_and_filters_keep_the_function(before, after):
    wanted, found = heirs(grown(replace(before, id="e")), grown(replace(after, id="e")))
    assert torch.allclose(wanted, found, atol=1e-4 * wanted.abs().max())


@pytest.mark.parametrize("kind", [Conv, DepthwiseConv, SeparableConv, MaxPool, AveragePool])
def test_more_channels_keep_the_function(kind):
    wanted, found = heirs(grown(kind(**ENDS)), grown(kind(**ENDS), factor=6.0))
    assert torch.allclose(wanted, found, atol=1e-4 * wanted.abs().max())


@pytest.mark.parametrize("groups", [1.0, 12.0])
@pytest.mark.parametrize("factor", [6.0, 8.0])
def test_more_channels_in_larger_groups_keep_the_function(groups, factor):
    """Twelve channels become 18 or 24: twelve groups of one become six of three, or twelve of two."""
    wanted, found = heirs(grown(grouped(groups)), grown(grouped(groups), factor=factor))
    assert torch.allclose(wanted, found, atol=1e-4 * wanted.abs().max())


def test_smaller_groups_keep_the_filters_within_them():
    old = torch.randn(6, 6, 3, 3, generator=torch.Generator().manual_seed(0))
    layer = GroupedConv(**ENDS, groups=3.0)
    tensors = tensors_of(layer)
    with torch.no_grad():
        assert layer.take_over(tensors, {"weight": old}, Shape(8, 8, 6)) == {"weight"}
    for channel in range(6):
        first = channel // 2 * 2
        assert torch.equal(tensors.weight[channel], old[channel, first : first + 2])


def test_a_depthwise_convolution_takes_the_diagonal():
    old = torch.randn(6, 6, 3, 3, generator=torch.Generator().manual_seed(0))
    layer = DepthwiseConv(**ENDS)
    tensors = tensors_of(layer)
    with torch.no_grad():
        layer.take_over(tensors, {"weight": old}, Shape(8, 8, 6))
    assert all(torch.equal(tensors.weight[channel, 0], old[channel, channel]) for channel in range(6))


def test_filters_that_can_be_separated_are_separated_exactly():
    generator = torch.Generator().manual_seed(0)
    each, across = torch.randn(6, 3, 3, generator=generator), torch.randn(4, 6, generator=generator)
    layer = SeparableConv(**ENDS, depth_factor=4 / 6)
    tensors = tensors_of(layer)
    filters = across[:, :, None, None] * each
    with torch.no_grad():
        assert layer.take_over(tensors, {"weight": filters}, Shape(8, 8, 6)) == {"depthwise", "pointwise"}
    x = images()
    wanted = torch.nn.functional.conv2d(x, filters, padding=1).numpy()
    assert np.allclose(computed(layer, x, tensors), wanted, atol=1e-4)


def test_a_normalisation_in_the_place_of_an_affine_vertex_computes_the_same():
    dna = grown(DepthwiseConv(**ENDS))
    parent_dna = dna.edited(put=[Affine(id="v1")])
    parent = Model(parent_dna, IMAGE, 5, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        parent.get_parameter("vertex_v1.weight").uniform_(0.5, 2.0)
        parent.get_parameter("vertex_v1.bias").uniform_(-1.0, 1.0)
    child = Model(dna.edited(put=[LAYERS.get("bn")(id="v1")]), IMAGE, 5, torch.Generator().manual_seed(1))
    x = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    inherit_function(child, parent.state_dict(), x)
    with torch.no_grad():
        assert torch.allclose(parent(x), child.eval()(x), atol=1e-4)


# Working in place


def test_normalisations_overwrite_only_their_own_values():
    """A rectifier after normalisation works in place; what is before it is needed for the gradient and by others."""
    layer, x = BatchNormRelu6(id="v"), images().requires_grad_()
    tensors = tensors_of(layer)
    before = x.detach().clone()
    layer.operation(tensors)(x).sum().backward()
    assert torch.equal(x.detach(), before)
    assert x.grad.isfinite().all()
