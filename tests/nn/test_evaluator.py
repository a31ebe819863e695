"""Failures that are results, and the account of what was spent."""

import numpy as np
import pytest
import torch

from genepool.data import open_source
from genepool.dna import initial, requirements, wide_resnet
from genepool.errors import SettingsError
from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest
from genepool.nn import TorchEvaluator
from genepool.nn import test_accuracy as measure_test_accuracy
from genepool.settings import preset
from tests.support.networks import chain, conv

CPU = torch.device("cpu")


def test_an_individual_costs_f_t_n_t_plus_f_v_n_v(fashion):
    answer = (
        TorchEvaluator(fashion, Training(steps=20), Limits(), CPU)
        .evaluate(TrainingRequest(initial(), seed=0))
        .evaluation
    )
    needs = requirements(initial(), fashion.image, 10, batch=50)
    assert answer.flops_training == needs.training.total
    assert answer.flops_forward == needs.forward.total
    assert answer.flops == 20 * needs.training.total + 20 * needs.forward.total  # 1,000 validation images
    assert answer.steps == 20
    assert answer.parameters == 20
    assert answer.reason is None
    assert answer.seconds > answer.stepping > 0


def test_fitness_can_be_measured_on_fewer_images_which_cost_less(fashion):
    few = TorchEvaluator(fashion, Training(steps=0, validation_images=200), Limits(), CPU)
    answer = few.evaluate(TrainingRequest(initial(), seed=0)).evaluation
    assert answer.flops == 4 * answer.flops_forward
    assert answer.fitness * 200 == pytest.approx(round(answer.fitness * 200))
    classes = np.bincount(fashion.validation_labels[:200], minlength=10)
    assert classes.min() == classes.max() == 20  # as fair as the whole


def test_a_diverged_training_is_a_result(fashion):
    dna = chain(conv("a", depth_factor=4.0), kind="linear").edited(learning_rate=1e6)
    answer = (
        TorchEvaluator(fashion, Training(steps=200), Limits(), CPU).evaluate(TrainingRequest(dna, seed=0)).evaluation
    )
    assert answer.fitness == 0
    assert "the loss was" in answer.reason
    assert 0 < answer.steps < 200
    assert answer.flops == answer.steps * answer.flops_training


@pytest.mark.parametrize(
    ("limits", "message"),
    [(Limits(parameters=100), "parameters are over the limit of 100"), (Limits(memory=1000), "raise limits.memory")],
)
def test_a_network_over_a_limit_is_a_result_and_costs_nothing(limits, message, fashion):
    answer = (
        TorchEvaluator(fashion, Training(), limits, CPU)
        .evaluate(TrainingRequest(chain(conv("a", depth_factor=99.0)), seed=0))
        .evaluation
    )
    assert (answer.fitness, answer.flops, answer.steps) == (0, 0, 0)
    assert message in answer.reason
    assert answer.parameters > 100


def test_by_the_papers_rules_a_network_is_refused_only_if_it_does_not_fit_into_memory(fashion, monkeypatch):
    """WRN-34-10, which takes as much here as on CIFAR-10, and more than 1e8 parameters; nothing is built."""

    class ReachedError(Exception):
        """The network is within all limits."""

    def build(self, *_):
        raise ReachedError

    monkeypatch.setattr(TorchEvaluator, "unfold", build)
    giant, training = chain(conv("a", depth_factor=4000.0), conv("b")), Training(batch=65)
    for dna in (wide_resnet(34, 10, fashion.channels), giant):
        needs = requirements(dna, fashion.image, 10, 65)
        assert needs.parameters > 1e8 or needs.memory > 4 * 2**30
        for limits in (preset("paper").limits, preset("lab").limits, preset("faithful").limits):
            with pytest.raises(ReachedError):
                TorchEvaluator(fashion, training, limits, CPU, memory=needs.memory + 2**30).evaluate(
                    TrainingRequest(dna, seed=0)
                )
            too_little = TorchEvaluator(fashion, training, limits, CPU, memory=needs.memory - 1)
            assert "this worker's share" in too_little.evaluate(TrainingRequest(dna, seed=0)).evaluation.reason


def test_channels_beyond_counting_are_a_result(fashion):
    dna = chain(*(conv(f"c{i}", depth_factor=1e5) for i in range(5)))
    answer = TorchEvaluator(fashion, Training(), Limits(), CPU).evaluate(TrainingRequest(dna, seed=0)).evaluation
    assert answer.fitness == 0
    assert "channels, more than" in answer.reason


def test_running_out_of_memory_is_a_result(fashion):
    """The real allocator of torch, asked for more than any machine has."""
    dna = chain(conv("a", depth_factor=900_000.0), conv("b"))
    answer = (
        TorchEvaluator(fashion, Training(), Limits(parameters=2**62, memory=2**62), CPU)
        .evaluate(TrainingRequest(dna, seed=0))
        .evaluation
    )
    assert answer.fitness == 0
    assert answer.reason == "the machine ran out of memory."


def test_a_fault_in_our_code_is_not_taken_for_a_result(fashion):
    def observe(progress):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        TorchEvaluator(fashion, Training(steps=50), Limits(), CPU).evaluate(TrainingRequest(initial(), seed=0), observe)


def test_an_unknown_schedule_is_refused_before_anything_is_trained(fashion):
    with pytest.raises(SettingsError, match="no schedule 'linaer'"):
        TorchEvaluator(fashion, Training(schedule="linaer"), Limits(), CPU)


@pytest.mark.thorough
def test_a_plan_may_have_threads_of_its_own_which_change_next_to_nothing(fashion):
    evaluator = TorchEvaluator(fashion, Training(steps=50), Limits(), CPU)
    dna, before, seen = chain(conv("a", depth_factor=8.0)), torch.get_num_threads(), []
    budget = TrainingBudget(threads=before + 1)
    one = evaluator.evaluate(TrainingRequest(dna, seed=0))
    two = evaluator.evaluate(
        TrainingRequest(dna, seed=0, budget=budget), lambda progress: seen.append(torch.get_num_threads())
    )
    assert (set(seen), torch.get_num_threads()) == ({before + 1}, before)
    assert np.allclose(two.evaluation.losses, one.evaluation.losses, rtol=1e-3)
    assert evaluator.evaluate(TrainingRequest(dna, seed=0, budget=budget)).weights == two.weights


def test_test_accuracy_is_that_of_the_held_out_images(fashion):
    source = open_source("fashion-mini")
    evaluator = TorchEvaluator(fashion, Training(steps=0), Limits(), CPU)
    model = evaluator.unfold(chain(conv("a")), seed=0)
    images = source.held_out()
    with torch.inference_mode():
        model.eval()
        scores = model(evaluator.normalise(images.pixels.copy()))
    by_hand = (scores.argmax(1).numpy() == images.labels).mean()
    assert measure_test_accuracy(model, source, fashion, evaluator.normalise) == pytest.approx(by_hand)
