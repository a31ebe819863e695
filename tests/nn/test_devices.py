"""The path that GPUs take, as far as a machine without one can try it: on the CPU, and on a device without memory."""

import pytest
import torch

from genepool.dna import OUTPUT, initial
from genepool.evaluation import Limits, Training, TrainingRequest
from genepool.layers import Identity
from genepool.nn import Model, Normaliser, TorchEvaluator, TrainingRun, gpus
from genepool.nn import trainer as training_module
from genepool.nn.batches import Batches, ResidentBatches, batches_for, resident
from genepool.nn.evaluator import accuracy
from tests.support.networks import chain, conv

CPU, META = torch.device("cpu"), torch.device("meta")


def with_a_skip():
    """Sizes and channels must be made to fit."""
    trunk = chain(conv("a", depth_factor=6.0), conv("b", depth_factor=2.0, stride_scale=1.0))
    skip = Identity(id="s", from_vertex="v0", to_vertex=OUTPUT.id, depth_precedence=0, scale_precedence=0)
    return trunk.edited(put=[skip])


def test_batches_made_on_a_device_are_bit_for_bit_those_of_the_cpu(fashion):
    ours, theirs = (kind(fashion, batch=70, seed=5, device=CPU) for kind in (Batches, ResidentBatches))
    for step in (0, 1, 99, 100, 205):  # some reach into the next pass
        for a, b in zip(ours(step), theirs(step), strict=True):
            assert torch.equal(a, b)
            assert a.stride() == b.stride()


def test_images_are_copied_to_a_device_once(fashion):
    assert resident(fashion, CPU) is resident(fashion, CPU)
    assert resident(fashion, CPU).train_pixels.dtype == torch.uint8
    assert isinstance(batches_for(fashion, batch=50, seed=0, device=META), ResidentBatches)


def test_a_training_by_the_path_of_gpus_gives_the_same_weights(fashion, monkeypatch):
    def train():
        return TorchEvaluator(fashion, Training(steps=60), Limits(), CPU).evaluate(
            TrainingRequest(with_a_skip(), seed=1)
        )

    ordinary = train()
    monkeypatch.setattr(training_module, "batches_for", ResidentBatches)
    assert train().weights == ordinary.weights


@pytest.mark.parametrize("dna", [initial(), with_a_skip()], ids=["initial", "with a skip"])
def test_a_step_touches_nothing_that_is_not_on_the_device(dna, fashion):
    """The device `meta` computes shapes only, and refuses any tensor from elsewhere."""
    model = Model(dna, fashion.image, 10, torch.Generator().manual_seed(0)).to(META)
    training = TrainingRun(model, fashion, Training(steps=5), seed=0, device=META)
    for _ in range(3):
        loss = training.step()
    assert (loss.device.type, loss.shape) == ("meta", ())


def test_validation_needs_no_copy_of_pixels_that_are_on_the_device(fashion):
    model = Model(with_a_skip(), fashion.image, 10, torch.Generator().manual_seed(0))
    normalise = Normaliser(fashion, CPU)
    pixels = resident(fashion, CPU).validation_pixels
    here = accuracy(model, fashion.validation_pixels, fashion.validation_labels, normalise)
    assert accuracy(model, pixels, fashion.validation_labels, normalise) == here


def test_without_gpus_there_are_none_to_share():
    assert gpus("cpu") == 0
