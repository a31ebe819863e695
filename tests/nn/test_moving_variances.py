"""Batch norm's moving variances are averages of biased variances, as in TF-slim: beside averages computed by hand."""

import pytest
import torch
from msgspec.structs import replace

from genepool.evaluation import Limits, Race, Training, TrainingBudget, TrainingRequest, ignore
from genepool.nn import Model, TorchEvaluator, TrainingRun, from_bytes
from tests.support.networks import chain, conv

CPU = torch.device("cpu")
DNA = replace(
    chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b", stride_scale=3.0), conv("c", stride_scale=1.0)),
    learning_rate=0.01,
)
"""The last normalisation sees one value per image: with batches of 5, unbiased variances are a quarter larger."""
TRAINING = Training(steps=60, batch=5)


class EnoughError(Exception):
    """Raised by an observer that has seen enough."""


def evaluator(data, training=TRAINING):
    return TorchEvaluator(data, training, Limits(), CPU)


def by_hand(data):
    """The moving averages of one training, from what comes into each normalisation."""
    model = Model(DNA, data.image, 10, torch.Generator().manual_seed(3))
    training = TrainingRun(model, data, TRAINING, seed=3, device=CPU)
    moving = {}

    def follow(name, x):
        variance, mean = torch.var_mean(x.double(), dim=(0, 2, 3), correction=0)
        old_variance, old_mean = moving.get(name, (torch.ones_like(variance), torch.zeros_like(mean)))
        moving[name] = (0.9 * old_variance + 0.1 * variance, 0.9 * old_mean + 0.1 * mean)

    for _ in range(TRAINING.steps):
        with torch.no_grad():
            model.run_with_hook(training._batches(training.done)[0], lambda vertex, _, x: follow(vertex.id, x))
        # The hooked pass has moved the averages as well, but they have no effect on training.
        training.step()
    return moving


def test_moving_variances_are_biased(fashion):
    weights = from_bytes(evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3)).weights)
    for name, (variance, mean) in by_hand(fashion).items():
        assert torch.allclose(weights[f"vertex_{name}.running_var"].double(), variance, rtol=1e-4), name
        assert torch.allclose(weights[f"vertex_{name}.running_mean"].double(), mean, rtol=1e-3, atol=1e-5), name


def test_a_resumed_training_has_the_same_ones(fashion):
    whole, saved = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3)), []

    def stop(progress):
        saved.append(progress.checkpoint())
        raise EnoughError

    with pytest.raises(EnoughError):
        evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3), stop)
    again = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, checkpoint=saved[0]))
    assert again.weights == whole.weights
    assert (again.evaluation.resumed, again.evaluation.steps) == (50, 60)


def test_a_race_sees_the_biased_ones_and_changes_nothing(fashion):
    seen = []
    budget = TrainingBudget(race=Race(look=0.5, rival=0.0))
    ours = evaluator(fashion)
    measure = ours._validate_partly

    def look(model):
        seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return measure(model)

    ours._validate_partly = look
    raced = ours.evaluate(TrainingRequest(DNA, seed=3, budget=budget))
    short = evaluator(fashion, replace(TRAINING, steps=30)).evaluate(TrainingRequest(DNA, seed=3))
    for name, tensor in from_bytes(short.weights).items():
        assert torch.equal(tensor, seen[0][name]), name
    assert raced.weights == evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3)).weights


def test_without_steps_they_stay_as_inherited(fashion):
    parent = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3)).weights
    untrained = evaluator(fashion, replace(TRAINING, steps=0))
    assert untrained.evaluate(TrainingRequest(DNA, seed=4, inherited=(parent,)), ignore).weights == parent
