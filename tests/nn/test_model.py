"""The unfolded network against the numbers that were predicted from the DNA alone, and against torch's own counter."""

from random import Random

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from genepool.dna import ZOO, Shape, initial, requirements, shapes, zoo
from genepool.layers import BatchNormRelu, Conv, Identity
from genepool.layers.tensors import Tensors
from genepool.mutations import mutate
from genepool.nn import Model
from genepool.nn.model import fit
from tests.support.networks import IMAGES, affordable, chain, conv, random_dna


def unfold(dna, image, classes=10, seed=0):
    return Model(dna, image, classes, torch.Generator().manual_seed(seed))


def images_of(image, batch=2, seed=0):
    values = torch.randn((batch, *image), generator=torch.Generator().manual_seed(seed))
    return values.permute(0, 3, 1, 2)


def random_networks(count, **limits):
    """Random DNAs with random images, those that a test can afford."""
    found, seed = [], 0
    while len(found) < count:
        rng = Random(seed)
        dna, image = random_dna(seed), rng.choice(IMAGES)
        if affordable(dna, image, **limits):
            found.append((dna, image, rng.choice((2, 10, 100))))
        seed += 1
    return found


def real_shapes(model, x):
    """The scores, and the shape of what every layer with weights really gave, by the ID of its edge or vertex."""
    dna, seen, values = model.dna, {}, {}

    def computed(layer, value):
        operation = layer.operation(model.tensors(layer))
        value = value if operation is None else operation(value)
        if layer.has_weights:
            seen[layer.id] = tuple(value.shape)
        return value

    sizes = shapes(dna, model.image).vertices
    for vertex in dna.order:
        terms = [fit(computed(edge, values[edge.from_vertex]), sizes[vertex]) for edge in dna.edges_in[vertex]]
        values[vertex] = computed(dna.vertex[vertex], sum(terms[1:], terms[0]) if terms else x).clone()
    scores = model(x)
    assert torch.allclose(model.get_submodule(f"classifier_{dna.output}")(values[dna.output]), scores, atol=1e-4)
    return scores, seen


def test_shapes_and_parameters_are_as_predicted_for_500_random_networks():
    for dna, image, classes in random_networks(500):
        model = unfold(dna, image, classes)
        scores, seen = real_shapes(model, images_of(image, 3))
        assert scores.shape == (3, classes)
        sizes = shapes(dna, image)
        assert len(seen) == len(dna.convs) + sum(isinstance(vertex, BatchNormRelu) for vertex in dna.vertices)
        for name, shape in seen.items():
            expected = sizes.edges.get(name) or sizes.vertices[name]
            assert shape == (3, expected.channels, expected.height, expected.width)
        assert sum(p.numel() for p in model.parameters()) == requirements(dna, image, classes).parameters


def test_flops_equal_those_of_torch_for_200_random_networks_forward_and_backward():
    for dna, image, classes in random_networks(200):
        model, needs = unfold(dna, image, classes), requirements(dna, image, classes, batch=3)
        with FlopCounterMode(display=False) as forward:
            model(images_of(image, 3))
        with FlopCounterMode(display=False) as training:
            model(images_of(image, 3)).sum().backward()
        assert forward.get_total_flops() == needs.forward.convolution + needs.forward.matrix
        assert training.get_total_flops() == needs.training.convolution + needs.training.matrix


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_costs_what_torch_says(name):
    """On the meta device, where nothing is computed: the wide network would take minutes."""
    image = Shape(32, 32, 3)
    with torch.device("meta"):
        model = Model(zoo(name), image, 10, None)
        x = torch.empty(2, 3, 32, 32)
        with FlopCounterMode(display=False) as counter:
            model(x).sum().backward()
    needs = requirements(zoo(name), image, 10, batch=2)
    assert counter.get_total_flops() == needs.training.convolution + needs.training.matrix
    assert sum(p.numel() for p in model.parameters()) == needs.parameters


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 50), marks=pytest.mark.thorough)], ids=str)
def test_ten_thousand_mutations_unfold(seeds):
    """The 50 chains of 200 of the mutation tests; each network is unfolded, none is run."""
    image = Shape(32, 32, 3)
    for seed in seeds:
        rng, dna = Random(seed), initial()
        for _ in range(200):
            dna = mutate(dna, rng).dna
            predicted = requirements(dna, image, 10).parameters
            # A device without memory for the few giants: building there is slower, but nothing is allocated.
            with torch.device("cpu" if predicted < 5e6 else "meta"):
                model = Model(dna, image, 10, None)
            assert sum(p.numel() for p in model.parameters()) == predicted


def test_names_of_tensors_carry_the_ids():
    names = set(unfold(chain(conv("a"), conv("b")), Shape(8, 8, 3)).state_dict())
    batch_norm = {f"vertex_{v}.{x}" for v in ("v0", "v1") for x in ("weight", "bias", "running_mean", "running_var")}
    assert (
        names == {"edge_a.weight", "edge_b.weight", "classifier_output.weight", "classifier_output.bias"} | batch_norm
    )


def test_the_primary_edge_decides_and_others_are_made_to_fit():
    """A vertex of 4 channels on 3x3, entered by 2 channels on 6x6: resized to the nearest pixel, padded with zeros."""
    x = torch.arange(2 * 36, dtype=torch.float32).view(1, 2, 6, 6)
    y = fit(x, Shape(3, 3, 4))
    assert torch.equal(y[:, :2], x[:, :, ::2, ::2])
    assert not y[:, 2:].any()
    assert torch.equal(fit(x, Shape(6, 6, 1)), x[:, :1])
    assert torch.equal(fit(x, Shape(12, 12, 2)), x.repeat_interleave(2, 2).repeat_interleave(2, 3))


def test_the_sum_of_a_skip_is_what_one_computes_by_hand():
    skip = Identity(id="s", from_vertex="input", to_vertex="v1", depth_precedence=0, scale_precedence=0)
    dna = chain(conv("a", depth_factor=2.0, stride_scale=1.0), conv("b"), kind="linear").edited(put=[skip])
    model, x = unfold(dna, Shape(6, 6, 2)), images_of(Shape(6, 6, 2))
    y = torch.nn.functional.conv2d(x, model.get_parameter("edge_a.weight"), stride=2, padding=1)
    y = torch.nn.functional.conv2d(y, model.get_parameter("edge_b.weight"), padding=1)
    y[:, :2] += x[:, :, ::2, ::2]
    weight, bias = (model.get_parameter(f"classifier_output.{n}") for n in ("weight", "bias"))
    assert torch.allclose(model(x), y.mean((2, 3)) @ weight.T + bias, atol=1e-6)


def test_an_input_with_an_activation_of_its_own_is_allowed():
    dna = initial().edited(put=[BatchNormRelu(id="input", leakiness=0.25)])
    model, x = unfold(dna, Shape(5, 4, 3)), images_of(Shape(5, 4, 3))
    assert model(x).shape == (2, 10)
    assert requirements(dna, Shape(5, 4, 3), 10).parameters == 6 + 40


def test_activation_is_batch_norm_with_decay_0_9_and_a_leaky_rectifier():
    vertex, theirs = BatchNormRelu(id="v", leakiness=0.1), torch.nn.BatchNorm2d(5, eps=0.001, momentum=0.1)
    ours = Tensors(vertex.weights(Shape(4, 4, 5)))
    for seed in range(3):
        x = images_of(Shape(4, 4, 5), batch=8, seed=seed) * 3 + 1
        y = theirs(x)
        assert torch.allclose(vertex.operation(ours)(x), torch.maximum(y, 0.1 * y), atol=1e-6)
    assert torch.equal(ours.running_mean, theirs.running_mean)
    assert torch.equal(ours.running_var, theirs.running_var)


def test_folding_for_validation_changes_nothing_for_100_random_networks():
    for dna, image, classes in random_networks(100):
        model = unfold(dna, image, classes)
        for name, tensor in model.state_dict().items():
            if "vertex_" in name:
                tensor.uniform_(0.5, 1.5)
        x = images_of(image, 4)
        folded = model.for_validation()(x)
        with torch.no_grad():
            plain = model.eval()(x)
        assert torch.allclose(folded, plain, rtol=1e-4, atol=1e-4 * plain.abs().max().item())
        assert not folded.requires_grad


def test_initial_weights_are_he_normal_scaled_for_the_number_of_incoming_edges():
    edge = Conv(id="p", from_vertex="input", to_vertex="v1", depth_precedence=0, scale_precedence=0, depth_factor=64.0)
    dna = chain(conv("a", depth_factor=64.0), conv("b")).edited(put=[edge])
    model = unfold(dna, Shape(8, 8, 3))
    for name, fan_in, edges in (("a", 3 * 9, 1), ("b", 192 * 9, 2), ("p", 3 * 9, 2)):
        weight = model.get_parameter(f"edge_{name}.weight")
        assert abs(weight.std().item() * (fan_in * edges / 2) ** 0.5 - 1) < 0.05
        assert abs(weight.mean().item()) < 4 * weight.std().item() / weight.numel() ** 0.5


def test_one_seed_gives_one_network():
    dna = random_dna(5)
    first, second, other = (unfold(dna, Shape(8, 8, 3), seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
