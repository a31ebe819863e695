"""Children of two parents: valid DNA, and before training the function that their parents' weights promise."""

from random import Random

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genepool.dna import Shape, decode, encode, initial, resnet, shapes
from genepool.errors import MutationError
from genepool.evaluation import Limits, Training, TrainingRequest
from genepool.layers import BatchNormRelu
from genepool.mutations import FUSION, MIXTURE, apply, fuse, mutate
from genepool.nn import Model, TorchEvaluator, from_bytes, inherit_weights, to_bytes
from genepool.nn.inheritance import fused, mixed
from tests.nn.test_preserving import CLASSES, IMAGE, trained
from tests.support.networks import IMAGES, affordable, chain, conv, random_dna

SEEDS = st.integers(0, 2**32)


def relatives(seed, longest=12):
    """Two DNAs with a common ancestor, and so with IDs in common."""
    rng, ancestor = Random(seed), random_dna(seed, longest)
    pair = []
    for _ in range(2):
        dna = ancestor
        for _ in range(rng.randrange(0, longest)):
            dna = mutate(dna, rng).dna
        pair.append(dna)
    return pair


def scores(model, images):
    with torch.no_grad():
        return model.eval()(images)


def images(count=6, image=IMAGE):
    return torch.randn(count, image.channels, image.height, image.width, generator=torch.Generator().manual_seed(1))


def multiples(one, other):
    """Whether the larger of the last activations is a whole number of times the smaller, both ways."""
    (a, b), (c, d) = sorted(shape[:2] for shape in (one, other))
    return c % a == 0 and max(b, d) % min(b, d) == 0 and (b <= d)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(IMAGES))
def test_a_fused_dna_is_valid_as_wide_as_both_and_evolves_on(seed, image):
    one, other = relatives(seed, longest=25)
    child = fuse(one, other, image, Random(seed))
    assert decode(encode(child)) == child
    left, right, both = (shapes(dna, image).vertices[dna.output] for dna in (one, other, child))
    assert both.channels == left.channels + right.channels
    assert len(child.convs) == len(one.convs) + len(other.convs) + 2
    assert {*one.vertex, *one.edge} <= {*child.vertex, *child.edge}
    assert child.input == one.input
    assert fuse(one, other, image, Random(seed)) == child
    rng = Random(seed)
    for _ in range(10):
        child = mutate(child, rng).dna  # each is checked by its own making
    twice = fuse(child, other, image, rng)  # the same second parent again brings no ID that is there
    shapes(fuse(twice, twice, image, rng), image)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_fused_childs_scores_are_the_mean_of_its_parents(seed):
    one, other = relatives(seed)
    assume(affordable(one, IMAGE) and affordable(other, IMAGE))
    parents = [trained(dna, seed) for dna in (one, other)]
    child_dna = fuse(one, other, IMAGE, Random(seed))
    left, right = (shapes(dna, IMAGE).vertices[dna.output] for dna in (one, other))
    assume(multiples(left, right))
    child = Model(child_dna, IMAGE, CLASSES, torch.Generator().manual_seed(seed))
    both = fused(child_dna, *(parent.state_dict() for parent in parents))
    found = inherit_weights(child, both.tensors)
    assert found.fresh == ()
    batch = images()
    wanted = sum(scores(parent, batch) for parent in parents) / 2
    difference = (scores(child, batch) - wanted).abs().max() / wanted.abs().max().clamp(min=1)
    assert difference < 1e-4


def test_sizes_that_are_no_multiples_are_near_the_mean():
    one = chain(conv("c", stride_scale=2.0, depth_factor=4.0))
    other = chain(conv("d", stride_scale=1.0, depth_factor=4.0))  # 3x3 and 5x6 of 10x12
    parents = [trained(dna, 3) for dna in (one, other)]
    dna = fuse(one, other, IMAGE, Random(0))
    child = Model(dna, IMAGE, CLASSES, torch.Generator())
    inherit_weights(child, fused(dna, *(parent.state_dict() for parent in parents)).tensors)
    wanted = sum(scores(parent, images()) for parent in parents) / 2
    assert (scores(child, images()) - wanted).abs().max() < 0.3 * wanted.abs().max()


def test_what_cannot_share_its_input_is_not_fused():
    odd = resnet(20)
    odd = odd.edited(put=[BatchNormRelu(id=odd.input)])
    with pytest.raises(MutationError, match="input"):
        fuse(initial(), odd, IMAGE, Random(0))


def test_weights_are_mixed_by_layer_from_both_and_only_where_they_fit():
    dna = chain(*(conv(f"c{i}", depth_factor=2.0 if i == 0 else 1.0) for i in range(12)))
    first, second = (trained(dna, seed).state_dict() for seed in (1, 2))
    model = Model(dna, IMAGE, CLASSES, torch.Generator())
    both = mixed(model, first, second, Random(5))
    assert inherit_weights(model, both.tensors).fresh == ()
    chosen = {name.partition(".")[0] for name in both.second}
    assert 2 <= sum(module.startswith("edge_") for module in chosen) <= 10
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, (second if name in both.second else first)[name])
    for i in range(12):  # a normalisation comes with the filters whose outputs it has measured
        assert (f"edge_c{i}" in chosen) == (f"vertex_v{i}" in chosen)
    assert mixed(model, first, second, Random(5)).second == both.second
    assert mixed(model, first, second, Random(6)).second != both.second

    wider = {name: torch.zeros(99, *tensor.shape[1:]) for name, tensor in second.items()}
    assert mixed(model, first, wider, Random(5)).second == frozenset()
    assert mixed(model, {}, second, Random(5)).second == frozenset(second)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_mixture_has_every_tensor_that_one_of_the_parents_has(seed):
    one, other = relatives(seed)
    child = mutate(one, Random(seed)).dna
    assume(all(affordable(dna, IMAGE) for dna in (one, other, child)))
    first, second = (trained(dna, seed).state_dict() for dna in (one, other))
    model = Model(child, IMAGE, CLASSES, torch.Generator().manual_seed(seed))
    both = mixed(model, first, second, Random(seed))
    found = inherit_weights(model, both.tensors)
    state = model.state_dict()
    assert set(found.inherited) >= {name for name in state if name in first and first[name].shape == state[name].shape}
    assert both.second <= set(found.inherited)
    assert torch.isfinite(scores(model, images())).all()


@pytest.fixture(scope="module")
def parents(fashion):
    """Two networks that were trained on real images, with a common ancestor."""
    torch.set_num_threads(1)
    evaluator = TorchEvaluator(fashion, Training(steps=150), Limits(), torch.device("cpu"))
    ancestor = chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b"))
    other = apply("insert-convolution", replace(ancestor, learning_rate=0.05), Random(2))
    return [(dna, evaluator.evaluate(TrainingRequest(dna, seed=seed))) for seed, dna in enumerate((ancestor, other))]


def accuracy_of_mean(evaluator, pairs, fashion):
    """Of the parents' mean scores on the validation images, without the child."""
    pixels, labels = fashion.validation_pixels.copy(), torch.tensor(fashion.validation_labels.copy())
    total = 0
    for dna, parent in pairs:
        model = evaluator.unfold(dna, seed=0)
        model.load_state_dict(from_bytes(parent.weights))
        total = total + scores(model, evaluator.normalise(pixels))
    return (total.argmax(1) == labels).float().mean().item()


def test_on_real_images_the_fused_child_begins_at_its_parents_accuracy_and_learns(parents, fashion):
    (one, first), (other, second) = parents
    child = fuse(one, other, fashion.image, Random(4))
    results = []
    for steps in (0, 60):
        evaluator = TorchEvaluator(fashion, Training(steps=steps), Limits(), torch.device("cpu"))
        results.append(
            evaluator.evaluate(
                TrainingRequest(child, seed=9, inherited=(first.weights, second.weights), recombination=FUSION)
            ).evaluation
        )
    begun, trained_on = results
    worse = min(first.evaluation.fitness, second.evaluation.fitness)
    assert worse > 0.3
    assert begun.fresh == ()
    assert begun.second
    assert begun.fitness == pytest.approx(accuracy_of_mean(evaluator, parents, fashion), abs=0.002)
    assert begun.fitness > worse - 0.03
    assert trained_on.reason is None
    assert trained_on.fitness > worse - 0.05


def test_on_real_images_a_mixing_child_takes_from_both_and_learns(parents, fashion):
    (one, first), (_, second) = parents
    evaluator = TorchEvaluator(fashion, Training(steps=60), Limits(), torch.device("cpu"))
    for seed in range(20):
        done = evaluator.evaluate(
            TrainingRequest(one, seed=seed, inherited=(first.weights, second.weights), recombination=MIXTURE)
        )
        if 0 < len(done.evaluation.second) < len(done.evaluation.inherited):
            break
    names = set(from_bytes(done.weights))
    assert set(done.evaluation.second) < set(done.evaluation.inherited) == names
    assert done.evaluation.reason is None
    assert done.evaluation.fitness > 0.4
    again = evaluator.evaluate(
        TrainingRequest(one, seed=seed, inherited=(first.weights, second.weights), recombination=MIXTURE)
    )
    assert again.weights == done.weights
    assert to_bytes(from_bytes(again.weights)) == again.weights


def test_an_image_of_another_shape_makes_other_widths():
    one, other = chain(conv("a", depth_factor=2.5)), chain(conv("a", depth_factor=3.0))
    grey, colour = (fuse(one, other, Shape(9, 9, channels), Random(0)) for channels in (1, 3))
    assert grey != colour
