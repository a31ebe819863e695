"""A narrower child keeps what its parent computed as far as its channels can say it."""

from random import Random

import numpy as np
import pytest
import torch

from genepool.dna import Shape, resnet, shapes, with_widths
from genepool.evaluation import Limits, Training, TrainingRequest
from genepool.layers import (
    AveragePool,
    BatchNorm,
    DepthwiseConv,
    GroupedConv,
    Identity,
    SeparableConv,
    SqueezeExcitation,
)
from genepool.layers.tensors import overlap
from genepool.mutations import apply
from genepool.nn import Model, TorchEvaluator, from_bytes
from genepool.nn.channel_choice import Reader, chosen, ranked
from genepool.nn.inheritance import inherit_function
from tests.nn.test_preserving import CLASSES, IMAGE, trained
from tests.support.networks import affordable, chain, conv, mixed_dna, skip

ENDS = {"from_vertex": "x", "to_vertex": "x"}


def narrower(dna, image, part):
    sizes = shapes(dna, image).edges
    widths = {edge.id: max(1, round(sizes[edge.id].channels * part)) for edge in dna.edges if edge.sets_depth}
    return with_widths(dna, image, widths)


def child_of(parent, dna, images, seed=1):
    child = Model(dna, parent.image, len(parent(images)[0]), torch.Generator().manual_seed(seed))
    inherit_function(child, parent.state_dict(), images)
    return child.eval()


def photographs(seed=0, count=20):
    return torch.randn(count, IMAGE.channels, *IMAGE[:2], generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(3))
def test_a_quarter_of_the_channels_of_a_trained_network_are_hardly_missed(seed, fashion):
    """Against what inheritance did before: the first channels, with the statistics that they had."""
    dna = chain(*(conv(name, depth_factor=f, stride_scale=s) for name, f, s in CONVS))
    evaluator = TorchEvaluator(fashion, Training(steps=150, schedule="linear"), Limits(), torch.device("cpu"))
    result = evaluator.evaluate(TrainingRequest(dna, seed=seed))
    weights, image = from_bytes(result.weights), fashion.image
    model = evaluator.unfold(narrower(dna, image, 0.75), seed=1)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            overlap(tensor, weights[name])
    first = evaluator.validate(model)
    border = (fashion.train_pixels.shape[1] - image.height) // 2
    middle = slice(border, border + image.height)
    images = evaluator.normalise(np.array(fashion.train_pixels[:50, middle, middle]))
    model = evaluator.unfold(narrower(dna, image, 0.75), seed=1)
    inherit_function(model, weights, images)
    important = evaluator.validate(model)
    before = result.evaluation.accuracy
    assert before > 0.5
    assert important > before - 0.08
    assert important > first + 0.2


CONVS = (("a", 16.0, 1.0), ("b", 2.0, 1.0), ("c", 1.0, 0.0))

BRANCHED = chain(
    conv("a", depth_factor=8.0),
    DepthwiseConv(id="b", **ENDS),
    GroupedConv(id="c", groups=4.0, **ENDS),
    AveragePool(id="d", **ENDS),
    SeparableConv(id="e", **ENDS),
    Identity(id="f", **ENDS),
    conv("g"),
).edited(put=[skip("s", "v0", "v5"), SqueezeExcitation(id="v5", gate="hard_sigmoid"), BatchNorm(id="v3")])


def silence(model, lost):
    """Make these channels zero after every normalisation."""
    with torch.no_grad():
        for tensors in model.normalisations().values():
            tensors.weight[lost] = 0
            tensors.bias[lost] = 0


def test_channels_that_are_zero_are_the_ones_to_go():
    dna = chain(conv("a", depth_factor=8.0), conv("b"), conv("c"))
    parent = trained(dna, 0)
    silence(parent, [0, 3, 4, 9, 11, 23])
    child, images = child_of(parent, narrower(dna, IMAGE, 0.75), photographs()), photographs(1)
    assert shapes(child.dna, IMAGE).vertices["output"].channels == 18
    assert torch.allclose(child(images), parent(images), atol=1e-4)


def test_tied_channels_go_together():
    """Vertices joined by identities, depthwise convolutions, poolings and squeeze-and-excitation."""
    parent = trained(BRANCHED, 0)
    lost = [0, 7, 13, 19]  # one of each of the four groups of "c"
    silence(parent, lost)
    with torch.no_grad():
        excitation = parent.tensors(BRANCHED.vertex["v5"])
        excitation.reduce_weight[-1] = 0  # one of six units fewer
        excitation.expand_weight[:, -1] = 0
    child, images = child_of(parent, narrower(BRANCHED, IMAGE, 20 / 24), photographs()), photographs(1)
    assert torch.allclose(child(images), parent(images), atol=1e-4)


def test_a_channel_that_follows_from_others_is_not_needed():
    """Half of the channels repeat the other half, twice as large: none is zero, but any half says everything."""
    dna = chain(conv("a", depth_factor=8.0), conv("b"))
    parent = trained(dna, 0)
    with torch.no_grad():
        parent.tensors(dna.edge["a"]).weight[12:] = parent.tensors(dna.edge["a"]).weight[:12]
        tensors = parent.tensors(dna.vertex["v0"])
        for tensor in (tensors.running_mean, tensors.running_var, tensors.weight, tensors.bias):
            tensor[12:] = tensor[:12]
        tensors.weight[12:] *= 2
        tensors.bias[12:] *= 2
    child = child_of(parent, with_widths(dna, IMAGE, {"a": 12}), photographs())
    images = photographs(1)
    wanted, found = parent(images), child(images)
    assert shapes(child.dna, IMAGE).vertices["v1"].channels == 24
    assert (wanted - found).abs().max() < 0.02 * wanted.abs().max()  # the ridge costs a little


def test_a_network_with_padded_skips_stays_close():
    """Shortcuts of ResNet-20 between 16, 32 and 64 channels: what is cut from one stage is cut from all."""
    dna, image = resnet(8), Shape(12, 12, 3)
    parent = Model(dna, image, CLASSES, torch.Generator().manual_seed(0)).eval()
    images = torch.randn(40, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    child = child_of(parent, narrower(dna, image, 15 / 16), images)
    wanted, found = parent(images), child(images)
    assert (wanted - found).std() < 0.3 * wanted.std()


def test_channels_that_no_classifier_reads_yet_are_chosen_by_what_they_say():
    """A pretrained network for other classes starts with a classifier of zeros."""
    dna = chain(conv("a", depth_factor=8.0), conv("b"))
    parent = trained(dna, 0)
    with torch.no_grad():
        parent.get_parameter("classifier_output.weight").zero_()
        for tensor in (parent.tensors(dna.vertex["v1"]).weight, parent.tensors(dna.vertex["v1"]).bias):
            tensor[:12] = 0
    child = child_of(parent, with_widths(dna, IMAGE, {"b": 12}), photographs())
    assert torch.equal(child.tensors(dna.vertex["v1"]).weight, parent.tensors(dna.vertex["v1"]).weight[12:])


@pytest.mark.parametrize("seed", range(20))
def test_any_network_can_be_narrowed(seed):
    dna = mixed_dna(seed, longest=40)
    if not affordable(dna, IMAGE):
        pytest.skip("too large for a test")
    parent, images = trained(dna, seed), photographs(seed)
    found = child_of(parent, narrower(dna, IMAGE, 0.6), images)(images)
    assert found.isfinite().all()


def test_unchanged_layers_keep_every_channel_in_its_place():
    dna = chain(conv("a", depth_factor=4.0), conv("b"), conv("c"))
    parent = trained(dna, 0)
    child = child_of(parent, with_widths(dna, IMAGE, {"c": 5}), photographs())
    for name in ("edge_a.weight", "edge_b.weight", "vertex_v1.running_mean"):
        assert torch.equal(child.state_dict()[name], parent.state_dict()[name])


def test_pruning_is_repeatable():
    parent, small = trained(BRANCHED, 0), narrower(BRANCHED, IMAGE, 0.5)
    first, second = (child_of(parent, small, photographs(), seed) for seed in (1, 2))
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


def test_a_pruned_layer_leaves_the_rest_as_it_was():
    dna = chain(conv("a", depth_factor=4.0), conv("b"), conv("c"), kind="bn")
    dna = dna.edited(put=[skip("s", "v0", "v2")])
    parent = trained(dna, 0)
    children = {apply("prune-layer", dna, Random(seed)) for seed in range(20)}
    short = next(child for child in children if "b" not in child.edge and "c" not in child.edge)
    child = child_of(parent, short, photographs())
    assert torch.equal(child.state_dict()["edge_a.weight"], parent.state_dict()["edge_a.weight"])


@pytest.mark.parametrize("channels", [20, 300])
def test_of_equal_channels_one_ranks_high(channels):
    generator, half = torch.Generator().manual_seed(0), channels // 2
    values = torch.randn(3 * channels, channels, generator=generator, dtype=torch.float64)
    values[:, half:] = 1.5 * values[:, :half]
    form = torch.eye(channels, dtype=torch.float64)
    narrow = Reader.of(values[:, :5].T @ values[:, :5], form[:5, :5])
    order = ranked([Reader.of(values.T @ values, form), narrow], channels, first=2)
    assert order[:2] == [0, 1] and sorted(order) == list(range(channels))
    assert {number % half for number in order[:half]} == set(range(half))


@pytest.mark.parametrize("seed", range(50))
def test_chosen_channels_exist_wherever_they_are_needed(seed):
    rng = Random(seed)
    old = {name: rng.randrange(1, 40) for name in "abcd"}
    new = {name: rng.randrange(1, width + 1) for name, width in old.items()}
    order = rng.sample(range(max(old.values())), max(old.values()))
    numbers = chosen(old, new, order).tolist()
    assert len(numbers) == len(set(numbers)) == max(new.values())
    for name, width in new.items():
        assert max(numbers[:width]) < old[name]


def test_the_first_ranked_are_chosen_and_stay_in_order():
    assert chosen({"a": 6}, {"a": 3}, [4, 0, 5, 1, 2, 3]).tolist() == [0, 4, 5]
    # Both have channels 0 to 3, only "b" has 4 to 7: each loses half of its own.
    assert chosen({"a": 4, "b": 8}, {"a": 2, "b": 4}, [7, 3, 6, 2, 5, 1, 4, 0]).tolist() == [2, 3, 6, 7]
    # Only "a" loses channels: "b" keeps all, in other places.
    assert sorted(chosen({"a": 4, "b": 4}, {"a": 2, "b": 4}, [3, 1, 0, 2]).tolist()) == [0, 1, 2, 3]
    assert chosen({"a": 4, "b": 4}, {"a": 2, "b": 4}, [3, 1, 0, 2]).tolist()[:2] == [1, 3]
    assert chosen({"a": 8}, {"a": 4}, [7, 6, 5, 4, 3, 2, 1, 0], blocks=2).tolist() == [2, 3, 6, 7]


def test_a_convolution_of_the_image_keeps_its_inputs():
    dna = chain(conv("z"), conv("a", depth_factor=2.0)).edited(put=[skip("s", "input", "v1")])
    parent = trained(dna, 0)
    child = child_of(parent, with_widths(dna, IMAGE, {"a": 4}), photographs())
    old, new = (model.state_dict()["edge_a.weight"] for model in (parent, child))
    assert torch.equal(new[:3], old[:3])  # the image is added to the first three channels
    assert any(torch.equal(new[3], filters) for filters in old[3:])
