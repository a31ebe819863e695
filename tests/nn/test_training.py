"""Batches, optimiser, training loop and what they repeat exactly."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from genepool.dna import Shape, initial
from genepool.nn.augment import Batches, Normaliser
from genepool.nn.model import Model
from genepool.nn.optimiser import SGD
from genepool.nn.training import Recipe, Training
from tests.networks import chain, conv

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
    [drawn] = batches._passes.values()
    for values, kinds in ((drawn.top, 9), (drawn.left, 9), (drawn.flip.astype(int), 2)):
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


def test_training_learns(fashion):
    model = Model(
        chain(conv("a", depth_factor=8.0, stride_scale=1.0)), fashion.image, 10, torch.Generator().manual_seed(0)
    )
    losses = []
    Training(model, fashion, Recipe(steps=300), seed=0, device=CPU).run(lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == [50, 100, 150, 200, 250, 300]
    assert losses[-1][1] < 0.75 * losses[0][1]


def test_zero_steps_are_allowed(fashion):
    model = Model(initial(), fashion.image, 10, torch.Generator().manual_seed(0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    Training(model, fashion, Recipe(steps=0), seed=0, device=CPU).run(lambda step, loss: None)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


TWICE = """
import sys, hashlib, torch
from genepool.nn.data import prepare
from genepool.nn.evaluator import evaluator_for
from genepool.nn.runtime import prepare_process
from genepool.nn.sources import open_source
from genepool.settings import override, preset
from genepool.dna import decode
from pathlib import Path
prepare_process()
data = prepare(open_source("fashion-mini"))
evaluator = evaluator_for(data, override(preset("paper"), ["steps=60"]), torch.device("cpu"))
evaluator.evaluate(decode(sys.argv[1]), seed=int(sys.argv[2]), save_to=Path(sys.argv[3]))
print(hashlib.sha256(Path(sys.argv[3]).read_bytes()).hexdigest())
"""


def test_two_processes_with_one_seed_give_identical_weights(tmp_path):
    from genepool.dna import encode

    text = encode(chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b")))

    def run(seed, name):
        command = [sys.executable, "-c", TWICE, text, str(seed), str(tmp_path / name)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert run(1, "a") == run(1, "b") != run(2, "c")


@pytest.mark.whole
def test_the_initial_network_reaches_23_percent_on_cifar_10(whole_data, tmp_path):
    """The paper's settings, 25,600 steps; the channel means alone give about 23 %."""
    from genepool.dna import codec

    codec.write(initial(), tmp_path / "initial.json")
    command = [sys.executable, "-m", "genepool", "train", str(tmp_path / "initial.json"), "--data", "cifar-10"]
    command += ["--data-dir", str(whole_data), "--json", "--out"]
    answers = [
        json.loads(subprocess.run([*command, str(tmp_path / n)], capture_output=True, check=True).stdout) for n in "ab"
    ]
    assert 0.21 <= answers[0]["fitness"] <= 0.26
    assert answers[0]["steps"] == 25_600
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
