"""Batches in slices, computed by one process: the same as a loop written in plain torch, and repeatable."""

import pytest
import torch
from torch.nn import functional

from genepool.dna import initial
from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest, most_slices
from genepool.layers import DECAY
from genepool.nn import TorchEvaluator, from_bytes
from genepool.nn.batches import Batches
from genepool.nn.parallel import part_of
from tests.support.networks import chain, conv

CPU = torch.device("cpu")
DNA = chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b", depth_factor=2.0, stride_scale=1.0))
SLICES = ((0, 2), (4, 3), (9, 1), (12, 2))


def trained(fashion, dna=DNA, slices=SLICES, observe=None, checkpoint=None, **settings):
    evaluator = TorchEvaluator(fashion, Training(**{"steps": 15, **settings}), Limits(), CPU)
    request = TrainingRequest(dna, seed=3, checkpoint=checkpoint, budget=TrainingBudget(slices=slices))
    return evaluator.evaluate(request, *([observe] if observe else []))


@pytest.mark.parametrize(("batch", "slices"), [(50, 2), (50, 3), (128, 5), (7, 7)])
def test_slices_divide_a_batch(batch, slices):
    parts = [list(range(batch))[part_of(batch, place, slices)] for place in range(slices)]
    assert [image for part in parts for image in part] == list(range(batch))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_slice_has_at_least_25_images():
    assert [most_slices(batch) for batch in (2, 32, 49, 50, 128)] == [1, 1, 1, 2, 5]


def test_parts_of_a_batch_are_the_images_of_the_batch(fashion):
    batches = Batches(fashion, batch=70, seed=3, device=CPU)
    for step in (0, len(fashion.train_labels) // 70):  # the second reaches into the next pass
        images, labels = batches(step)
        parts = [batches(step, part_of(70, place, 3)) for place in range(3)]
        assert torch.equal(torch.cat([part for part, _ in parts]), images)
        assert torch.equal(torch.cat([part for _, part in parts]), labels)


def test_without_batch_normalisation_slices_change_only_roundings(fashion):
    one, several = (trained(fashion, initial(), slices) for slices in ((), ((0, 2), (7, 3))))
    first, second = (torch.tensor([loss for _, loss in each.evaluation.losses]) for each in (one, several))
    assert torch.allclose(first, second, rtol=1e-5)
    assert (several.evaluation.slices, one.evaluation.slices) == (((0, 2), (7, 3)), ())
    assert several.evaluation.flops == one.evaluation.flops
    assert several.weights != one.weights


def test_a_training_in_slices_is_that_of_a_plain_loop(fashion):
    """Gradients are means over the batch; the statistics of batch normalisation are those of the first slices."""
    evaluator = TorchEvaluator(fashion, Training(), Limits(), CPU)
    model = evaluator.unfold(DNA, seed=3).train()
    norms = [module for module in model.modules() if hasattr(module, "running_var")]
    batches = Batches(fashion, batch=50, seed=3, device=CPU)
    decayed = [{"params": [p for p in model.parameters() if (p.ndim > 1) is big]} for big in (True, False)]
    sgd = torch.optim.SGD(decayed, lr=DNA.learning_rate, momentum=0.9)
    sgd.param_groups[0]["weight_decay"] = 1e-4
    biased = [norm.running_var.clone() for norm in norms]
    slices = 1
    for step in range(15):
        slices = dict(SLICES).get(step, slices)
        images, labels = batches(step)
        sgd.zero_grad()
        for place, part in reversed([(place, part_of(50, place, slices)) for place in range(slices)]):
            kept = [buffer.clone() for buffer in model.buffers()]
            loss = functional.cross_entropy(model(images[part]), labels[part], reduction="sum") / 50
            loss.backward()
            if place:
                torch._foreach_copy_(list(model.buffers()), kept)
        # What torch averages is unbiased; the last step's part of it is divided by n / (n - 1).
        for norm, mean, size in zip(norms, biased, (14, 7), strict=True):
            n = part_of(50, 0, slices).stop * size * size
            mean.copy_(DECAY * mean + (norm.running_var - DECAY * mean) * (n - 1) / n)
            norm.running_var.copy_(mean)
        sgd.step()
    found = from_bytes(trained(fashion).weights)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(found[name], tensor, rtol=1e-4, atol=1e-6), name


def test_the_same_slices_give_the_same_weights_and_others_do_not(fashion):
    once, again, other = (trained(fashion, slices=slices) for slices in (SLICES, SLICES, ((0, 2),)))
    assert once.weights == again.weights
    assert once.evaluation.slices == SLICES
    assert other.weights != once.weights


@pytest.mark.parametrize("averaging", [0.0, 0.5])
@pytest.mark.parametrize("stop_at", [50, 100])
def test_a_training_in_slices_is_resumed_bit_for_bit(stop_at, averaging, fashion):
    slices, kept = ((10, 2), (60, 1), (90, 2)), {}
    whole = trained(
        fashion,
        slices=slices,
        steps=120,
        averaging=averaging,
        observe=lambda progress: kept.setdefault(progress.step, progress.checkpoint()),
    )
    resumed = trained(fashion, slices=slices, steps=120, averaging=averaging, checkpoint=kept[stop_at])
    assert resumed.weights == whole.weights
    assert resumed.evaluation.slices == slices
    assert resumed.evaluation.losses == whole.evaluation.losses


def test_a_resumed_training_without_peers_continues_with_one_slice(fashion):
    kept = {}
    trained(fashion, slices=((10, 2),), steps=60, observe=lambda p: kept.setdefault(p.step, p.checkpoint()))
    alone = trained(fashion, slices=(), steps=60, checkpoint=kept[50])
    assert alone.evaluation.slices == ((10, 2), (50, 1))
    assert trained(fashion, slices=alone.evaluation.slices, steps=60).weights == alone.weights
