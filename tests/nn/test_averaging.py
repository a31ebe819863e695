"""The mean of the last weights: beside one that is computed plainly, stopped and resumed, and by time."""

import time

import pytest
import torch

from genepool.dna import Shape, requirements
from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest, ignore
from genepool.nn import Model, TorchEvaluator, TrainingRun, from_bytes
from genepool.nn.optimiser import BATCHES, EVERY, TailAverage
from genepool.settings import override, preset
from tests.support.networks import chain, conv

CPU = torch.device("cpu")
DNA = chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b"))
RECIPE = Training(steps=83, schedule="linear", nesterov=True, averaging=0.3)


def evaluator(data, recipe=RECIPE):
    return TorchEvaluator(data, recipe, Limits(), CPU)


def plain_average(data, recipe, seed):
    """Keeps all weights of an ordinary training, and looks from outside at what comes into each normalisation."""
    model = Model(DNA, data.image, 10, torch.Generator().manual_seed(seed))
    training = TrainingRun(model, data, Training(steps=83, schedule="linear", nesterov=True), seed=seed, device=CPU)
    kept = []
    for done in range(1, recipe.steps + 1):
        training.step()
        if done > 0.7 * recipe.steps and (done % EVERY == 0 or done == recipe.steps):
            kept.append({name: parameter.detach().double().clone() for name, parameter in model.named_parameters()})
    expected = {name: torch.stack([weights[name] for weights in kept]).mean(0).float() for name in kept[0]}
    model.load_state_dict(expected, strict=False)
    seen = {}

    def follow(vertex, _, x):
        seen.setdefault(vertex.module_name, []).append(x.detach().clone())

    for step in range(recipe.steps, recipe.steps + BATCHES):
        model.run_with_hook(training._batches(step)[0], follow)
    shares = torch.tensor([0.9 ** (BATCHES - 1 - i) for i in range(BATCHES)])
    shares = (shares / shares.sum()).view(-1, 1)
    for name, inputs in seen.items():
        means = torch.stack([x.mean((0, 2, 3)) for x in inputs])
        variances = torch.stack([x.transpose(0, 1).flatten(1).var(1, correction=0) for x in inputs])
        expected |= {
            f"{name}.running_mean": (shares * means).sum(0),
            f"{name}.running_var": (shares * variances).sum(0),
        }
    return expected, len(kept)


def test_what_is_kept_is_the_mean_of_the_last_weights_with_statistics_of_its_own(fashion):
    expected, count = plain_average(fashion, RECIPE, seed=3)
    weights = from_bytes(evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3)).weights)
    last = from_bytes(
        evaluator(fashion, Training(steps=83, schedule="linear", nesterov=True))
        .evaluate(TrainingRequest(DNA, seed=3))
        .weights
    )
    assert count == 6
    assert set(weights) == set(expected) == set(last)
    for name, tensor in weights.items():
        assert torch.allclose(tensor, expected[name], rtol=1e-4, atol=1e-5), name
        assert not torch.allclose(tensor, last[name], rtol=1e-3, atol=1e-4), name


def test_the_network_that_is_validated_is_the_one_that_is_kept(fashion):
    ours = evaluator(fashion)
    trained = ours.evaluate(TrainingRequest(DNA, seed=3))
    model = ours.unfold(DNA, seed=0)
    model.load_state_dict(from_bytes(trained.weights))
    assert ours.validate(model) == trained.evaluation.fitness
    needs = requirements(DNA, fashion.image, 10)
    without = evaluator(fashion, Training(steps=83)).evaluate(TrainingRequest(DNA, seed=3)).evaluation
    assert trained.evaluation.flops - without.flops == BATCHES * needs.forward.total


class EnoughError(Exception):
    """Raised by an observer that has seen enough."""


@pytest.mark.parametrize("stop_at", [50, 100, 150])
def test_a_resumed_training_ends_bit_for_bit_where_an_unbroken_one_does(stop_at, fashion):
    """Before the average begins, in the middle of it, and right at the end."""
    ours = evaluator(fashion, Training(steps=150, schedule="linear", averaging=0.5))
    kept = []

    def stop(progress):
        if progress.step == stop_at:
            kept.append(progress.checkpoint())
            raise EnoughError

    with pytest.raises(EnoughError):
        ours.evaluate(TrainingRequest(DNA, seed=3), stop)
    resumed, unbroken = (
        ours.evaluate(TrainingRequest(DNA, seed=3, checkpoint=kept[0])),
        ours.evaluate(TrainingRequest(DNA, seed=3)),
    )
    assert resumed.weights == unbroken.weights
    assert resumed.evaluation.fitness == unbroken.evaluation.fitness


def test_a_training_by_time_repeats_from_its_record(fashion):
    ours = evaluator(fashion, Training(steps=10**6, schedule="linear", averaging=0.5))
    first = ours.evaluate(TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=0.7)))
    again = ours.evaluate(
        TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=0.7, step_decisions=first.evaluation.step_decisions))
    )
    assert again.weights == first.weights


def test_an_average_that_began_too_early_begins_again():
    model = Model(DNA, Shape(8, 8, 1), 10, torch.Generator().manual_seed(0))
    average = TailAverage(model, 0.5)
    average.after(60, 100)
    average.after(65, 100)
    assert average.count == 2
    average.after(70, 200)
    assert average.count == 0
    assert average.values == []
    average.after(75, 0)  # nobody knows the end yet
    assert average.count == 0


def test_a_network_without_normalisation_needs_no_batches_for_it(fashion):
    plain = chain(conv("a", depth_factor=4.0, stride_scale=1.0), kind="linear").edited(learning_rate=0.01)
    model = Model(plain, fashion.image, 10, torch.Generator().manual_seed(0))
    training = TrainingRun(model, fashion, Training(steps=20, averaging=0.5), seed=0, device=CPU)
    training.run(ignore)
    assert training.batches_after_last_step == 0


def test_the_prediction_of_memory_counts_the_average(fashion):
    wide = chain(conv("a", depth_factor=256.0, stride_scale=3.0), conv("b"))
    parameters = requirements(wide, fashion.image, 10).parameters
    needed = requirements(wide, fashion.image, 10).memory + 64 * len(fashion.train_labels)
    limits = Limits(memory=needed + 8 * parameters - 1)
    for part, fits in ((0.0, True), (0.5, False)):
        answer = TorchEvaluator(fashion, Training(steps=0, averaging=part), limits, CPU).evaluate(
            TrainingRequest(wide, seed=0)
        )
        assert (answer.evaluation.reason is None) == fits


def test_it_costs_next_to_nothing(fashion):
    """Taken alternately, the fastest of each: 200 updates of the average beside 200 steps."""
    model = Model(DNA, fashion.image, 10, torch.Generator().manual_seed(0))
    training = TrainingRun(model, fashion, Training(steps=10**6), seed=0, device=CPU)
    average = TailAverage(model, 1.0)
    shares = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(40):
            training.step()
        middle = time.perf_counter()
        for done in range(1, 41):
            average.after(done, 40)
        shares.append((time.perf_counter() - middle) / (middle - began))
    assert min(shares) < 0.02


def test_the_setting_reaches_the_training(fashion):
    assert override(preset("laptop"), ["training.averaging=0.25"]).training.averaging == 0.25
    assert all(preset(name).training.averaging == 0 for name in ("paper", "faithful"))
