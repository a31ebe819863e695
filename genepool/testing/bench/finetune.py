"""The yardstick for evolution from a pretrained network: plain fine-tuning of that network for the same time.

One training with torch.optim: all threads, the images and their augmentation as in an experiment, a new classifier,
a smaller learning rate for all other layers, warm-up and then a linear fall to zero by time, label smoothing, and
bfloat16 where it is faster. Its numbers were chosen by the accuracy on validation images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from genepool.data import Dataset, Source, prepare
from genepool.dna import capacity
from genepool.errors import DataError
from genepool.evaluation import Limits
from genepool.experiment import Start, beginning
from genepool.nn import Model, TorchEvaluator, batches_for, from_bytes, inherit_weights, is_mixed, test_accuracy
from genepool.settings import Settings

WARM_UP = 0.03  # share of the time in which the learning rate rises
DEVICE = torch.device("cpu")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How the network is fine-tuned."""

    seconds: float
    seed: int = 0
    learning_rate: float = 0.1
    """The learning rate of the classifier."""
    body_rate: float = 1.0
    """The learning rate of all other layers, as a fraction of it."""
    batch: int = 50
    momentum: float = 0.9
    weight_decay: float = 0.0001
    smoothing: float = 0.1


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. The keys of its JSON form are documented."""

    validation_accuracy: float
    test_accuracy: float
    steps: int
    seconds: float
    height: int
    width: int
    flops_image: int


def fine_tune(text: str, settings_of: Callable[[str], Settings], recipe: Recipe) -> Tuned:
    """Fine-tune the network that `--start` would find on the images that it would get; `settings_of` makes the settings
    from a preset."""
    found = beginning(text, settings_of, lambda chosen: chosen.data.open())
    if found.start.weights is None:
        raise DataError(f"'{text}' has no weights to fine-tune; give a trained model.")
    source = found.settings.data.open()
    data = prepare(source)
    evaluator = TorchEvaluator(data, found.settings.training, Limits(), DEVICE)
    model = _model(found.start, evaluator)
    mixed = is_mixed(found.settings.training.precision, DEVICE, found.start.dna)
    began = time.perf_counter()
    steps = sum(1 for _ in _steps(model, data, recipe, mixed))
    return _outcome(model, evaluator, source, steps, time.perf_counter() - began)


def _model(start: Start, evaluator: TorchEvaluator) -> Model:
    model = evaluator.unfold(start.dna, seed=0)
    if inherit_weights(model, from_bytes(start.weights or b"")).fresh:
        raise DataError("The weights do not fit the network; leave limits out.")
    return model


def _steps(model: Model, data: Dataset, recipe: Recipe, mixed: bool) -> Iterator[Tensor]:
    """Train until the time is over; yield the loss of each step."""
    optimiser = torch.optim.SGD(_groups(model, recipe), momentum=recipe.momentum, nesterov=True)
    batches = batches_for(data, batch=recipe.batch, seed=recipe.seed, device=DEVICE)
    began, done = time.perf_counter(), 0
    model.train()
    while (spent := (time.perf_counter() - began) / recipe.seconds) < 1.0:
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * min(spent / WARM_UP, 1.0 - spent)
        images, labels = batches(done)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = functional.cross_entropy(model(images), labels, label_smoothing=recipe.smoothing)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        done += 1
        yield loss.detach()


def _groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """The parameters by learning rate; weight decay acts on filters and matrices only."""
    groups = []
    for is_head in (True, False):
        for is_decayed in (True, False):
            chosen = [
                parameter
                for name, parameter in model.named_parameters()
                if name.startswith("classifier_") == is_head and (parameter.ndim > 1) == is_decayed
            ]
            rate = recipe.learning_rate * (1.0 if is_head else recipe.body_rate)
            decay = recipe.weight_decay if is_decayed else 0.0
            groups.append({"params": chosen, "lr": rate, "peak": rate, "weight_decay": decay})
    return [group for group in groups if group["params"]]


def _outcome(model: Model, evaluator: TorchEvaluator, source: Source, steps: int, seconds: float) -> Tuned:
    data = evaluator.data
    return Tuned(
        validation_accuracy=evaluator.validate(model),
        test_accuracy=test_accuracy(model, source, data, evaluator.normalise),
        steps=steps,
        seconds=seconds,
        height=data.height,
        width=data.width,
        flops_image=capacity(model.dna, data.image, len(data.classes)).flops,
    )
