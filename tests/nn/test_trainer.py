"""Batches, optimiser, training loop and what they repeat exactly."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from genepool.dna import Shape, initial
from genepool.errors import DataError
from genepool.evaluation import Limits, Training, TrainingRequest, ignore
from genepool.nn import Model, Normaliser, TorchEvaluator, TrainingRun
from genepool.nn.batches import Batches, mirror
from genepool.nn.optimiser import SGD
from tests.support.in_process import genepool
from tests.support.networks import chain, conv

CPU = torch.device("cpu")


def restored(batch, data):
    """The uint8 pixels behind a normalised batch."""
    mean, std = (torch.tensor(v).view(1, -1, 1, 1) for v in (data.mean, data.std))
    return ((batch * std + mean) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def test_a_pass_shows_every_image_once_cropped_from_its_padded_original(fashion):
    batches = Batches(fashion, batch=50, seed=3, device=CPU)
    count = len(fashion.train_labels)
    counts = np.zeros(10, int)
    for step in range(count // 50):
        _, labels = batches(step)
        counts += np.bincount(labels.numpy(), minlength=10)
    assert (counts == np.bincount(fashion.train_labels, minlength=10)).all()


def test_every_training_image_is_a_crop_or_its_mirror_image(fashion):
    images, labels = Batches(fashion, batch=50, seed=0, device=CPU)(7)
    crops = restored(images, fashion)
    h, w = fashion.height, fashion.width
    flips = 0
    for crop, label in zip(crops[:8], labels[:8].tolist(), strict=True):
        same_class = np.flatnonzero(np.asarray(fashion.train_labels) == label)
        candidates = np.asarray(fashion.train_pixels)[same_class]
        found = {
            mirrored
            for top in range(9)
            for left in range(9)
            for mirrored in (False, True)
            if (candidates[:, top : top + h, left : left + w] == (crop[:, ::-1] if mirrored else crop))
            .all((1, 2, 3))
            .any()
        }
        assert found
        flips += found == {True}
    assert 0 < flips < 8


def test_all_crops_and_both_sides_occur_evenly(fashion):
    batches = Batches(fashion, batch=50, seed=1, device=CPU)
    batches(0)
    [(_, top, left, flip)] = batches._passes.values()
    for values, kinds in ((top, 9), (left, 9), (flip.astype(int), 2)):
        counts = np.bincount(values, minlength=kinds)
        assert len(counts) == kinds
        assert abs(counts - counts.mean()).max() < 5 * counts.mean() ** 0.5


def test_a_batch_depends_on_seed_and_step_only(fashion):
    """So a training can be resumed at any step. Batch 70 does not divide the pass."""
    forward = Batches(fashion, batch=70, seed=5, device=CPU)
    seen = [forward(step) for step in range(200)]
    for step in (199, 85, 86, 0):
        images, labels = Batches(fashion, batch=70, seed=5, device=CPU)(step)
        assert torch.equal(images, seen[step][0])
        assert torch.equal(labels, seen[step][1])
    assert not torch.equal(Batches(fashion, batch=70, seed=6, device=CPU)(0)[0], seen[0][0])


def test_pixels_are_normalised_by_channel(fashion):
    normalised = Normaliser(fashion, CPU)(np.array(fashion.validation_pixels))
    assert abs(normalised.mean().item()) < 0.05
    assert abs(normalised.std().item() - 1) < 0.05
    assert normalised.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 17])
@pytest.mark.parametrize("which", [[0, 1, 0, 1, 1], [0] * 5, [1] * 5])
def test_mirrored_images_are_reversed_from_left_to_right_and_the_others_untouched(channels, which):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 7, channels), dtype=np.uint8)
    expected = np.stack([image[:, ::-1] if mirrored else image for image, mirrored in zip(pixels, which, strict=True)])
    mirror(pixels, np.array(which, dtype=bool))
    assert (pixels == expected).all()


def test_a_data_set_that_must_not_be_flipped_is_not(fashion):
    import dataclasses

    plain = dataclasses.replace(fashion, flip=False)
    both = [Batches(data, batch=50, seed=0, device=CPU)(0)[0] for data in (fashion, plain)]
    same = [torch.equal(a, b) for a, b in zip(*both, strict=True)]
    assert 5 < sum(same) < 45


def test_the_optimiser_does_what_torch_optim_does():
    networks = [Model(chain(conv("a")), Shape(8, 8, 3), 10, torch.Generator().manual_seed(0)) for _ in range(2)]
    weights = [
        [p for p in net.parameters() if (p.ndim > 1) == decayed] for net in networks for decayed in (True, False)
    ]
    theirs = torch.optim.SGD(
        [{"params": weights[2], "weight_decay": 0.01}, {"params": weights[3], "weight_decay": 0.0}],
        lr=0.05,
        momentum=0.9,
    )
    ours = SGD(networks[0], learning_rate=0.05, momentum=0.9, weight_decay=0.01)
    x, y = torch.randn(10, 3, 8, 8), torch.randint(10, (10,))
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(networks[0](x), y)
        ours.step(torch.autograd.grad(loss, ours.parameters))
        theirs.zero_grad()
        torch.nn.functional.cross_entropy(networks[1](x), y).backward()
        theirs.step()
    for a, b in zip(*(net.parameters() for net in networks), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_all_layers_but_the_classifier_can_have_another_learning_rate(nesterov):
    networks = [Model(chain(conv("a")), Shape(8, 8, 3), 10, torch.Generator().manual_seed(0)) for _ in range(2)]
    named = list(networks[1].named_parameters())
    head, body = ([p for name, p in named if name.startswith("classifier") == own] for own in (True, False))
    groups = [{"params": head, "lr": 0.05}, {"params": body, "lr": 0.005}]
    theirs = torch.optim.SGD(groups, momentum=0.9, nesterov=nesterov)
    ours = SGD(networks[0], learning_rate=0.05, momentum=0.9, weight_decay=0.0, nesterov=nesterov, body_rate=0.1)
    x, y = torch.randn(10, 3, 8, 8), torch.randint(10, (10,))
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(networks[0](x), y)
        ours.step(torch.autograd.grad(loss, ours.parameters))
        theirs.zero_grad()
        torch.nn.functional.cross_entropy(networks[1](x), y).backward()
        theirs.step()
    for a, b in zip(*(net.parameters() for net in networks), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_the_body_rate_of_the_dna_is_used(fashion):
    dna = chain(conv("a", depth_factor=8.0, stride_scale=1.0))
    trained = []
    for body_rate in (1.0, 1e-6):
        model = Model(replace(dna, body_rate=body_rate), fashion.image, 10, torch.Generator().manual_seed(0))
        before = model.get_parameter("edge_a.weight").detach().clone()
        TrainingRun(model, fashion, Training(steps=20), seed=0, device=CPU).run(lambda progress: None)
        trained.append((model.get_parameter("edge_a.weight") - before).abs().max().item())
    assert trained[0] > 1e-2 and trained[1] < 1e-5


def test_training_learns(fashion):
    model = Model(
        chain(conv("a", depth_factor=8.0, stride_scale=1.0)), fashion.image, 10, torch.Generator().manual_seed(0)
    )
    losses = []
    TrainingRun(model, fashion, Training(steps=300), seed=0, device=CPU).run(
        lambda progress: losses.append((progress.step, progress.loss))
    )
    assert [step for step, _ in losses] == [50, 100, 150, 200, 250, 300]
    assert losses[-1][1] < 0.75 * losses[0][1]


def test_zero_steps_are_allowed(fashion):
    model = Model(initial(), fashion.image, 10, torch.Generator().manual_seed(0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    TrainingRun(model, fashion, Training(steps=0), seed=0, device=CPU).run(ignore)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


TWICE = """
import sys, hashlib, torch
from genepool.data.dataset import prepare
from genepool.nn.evaluator import TorchEvaluator
from genepool.nn.device import prepare_process
from genepool.data import open_source
from genepool.dna import decode
from genepool.evaluation import Limits, Training, TrainingRequest
prepare_process()
data = prepare(open_source("fashion-mini"))
evaluator = TorchEvaluator(data, Training(steps=60), Limits(), torch.device("cpu"))
for seed in (1, 2):
    print(hashlib.sha256(evaluator.evaluate(TrainingRequest(decode(sys.argv[1]), seed)).weights).hexdigest())
"""


def test_two_processes_with_one_seed_give_identical_weights():
    from genepool.dna import encode

    text = encode(chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b")))
    command = [sys.executable, "-c", TWICE, text]
    one, other = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert one == other
    assert len(set(one.split())) == 2  # two seeds


class EnoughError(Exception):
    """Raised by an observer that has seen enough."""


@pytest.mark.parametrize("stop_at", [50, 100, 150])
def test_a_resumed_training_ends_bit_for_bit_where_an_unbroken_one_does(stop_at, fashion):
    dna = chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b"))
    evaluator = TorchEvaluator(fashion, Training(steps=170), Limits(), CPU)
    unbroken = evaluator.evaluate(TrainingRequest(dna, seed=3))
    kept = []

    def stop(progress):
        if progress.step == stop_at:
            kept.append(progress.checkpoint())
            raise EnoughError

    with pytest.raises(EnoughError):
        evaluator.evaluate(TrainingRequest(dna, seed=3), stop)
    seen = []
    resumed = evaluator.evaluate(
        TrainingRequest(dna, seed=3, checkpoint=kept[0]), lambda progress: seen.append(progress.step)
    )
    # On a busy machine, slow steps are reported between these.
    assert [step for step in seen if step in (50, 100, 150, 170)] == [s for s in (50, 100, 150, 170) if s > stop_at]
    assert resumed.weights == unbroken.weights
    assert resumed.evaluation.losses == unbroken.evaluation.losses
    assert resumed.evaluation.fitness == unbroken.evaluation.fitness
    assert resumed.evaluation.flops == unbroken.evaluation.flops


def test_a_checkpoint_of_another_network_is_refused(fashion):
    evaluator = TorchEvaluator(fashion, Training(steps=50), Limits(), CPU)
    kept = []
    evaluator.evaluate(TrainingRequest(chain(conv("a")), seed=0), lambda progress: kept.append(progress.checkpoint()))
    with pytest.raises(DataError, match="does not belong to this network"):
        evaluator.evaluate(TrainingRequest(chain(conv("b")), seed=0, checkpoint=kept[0]))
    with pytest.raises(DataError, match="safetensors"):
        evaluator.evaluate(TrainingRequest(chain(conv("a")), seed=0, checkpoint=b"rubbish"))


@pytest.mark.thorough
@pytest.mark.whole
def test_the_initial_network_reaches_23_percent_on_cifar_10(whole_data, tmp_path):
    """The paper's settings, 25,600 steps; the channel means alone give about 23 %."""
    from genepool.dna import codec

    (tmp_path / "initial.json").write_text(codec.encode(initial()))
    command = ("train", tmp_path / "initial.json", "--data", "cifar-10", "--data-dir", whole_data, "--json", "--out")
    answer = json.loads(genepool(*command, tmp_path / "whole").stdout)
    assert 0.21 <= answer["fitness"] <= 0.26
    assert answer["steps"] == 25_600
    for name in ("a", "b"):
        assert genepool(*command, tmp_path / name, "--steps", 1000).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
