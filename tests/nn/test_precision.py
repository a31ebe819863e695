"""Training in fewer bits: when, how near to the truth, and what is written down of it."""

import pytest
import torch
from torch.nn import functional

from genepool.dna import Shape, zoo
from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest
from genepool.layers import Conv, DepthwiseConv, SeparableConv
from genepool.nn import Model, TorchEvaluator, TrainingRun, is_mixed
from genepool.nn.device import Precision
from genepool.settings import PRESETS, preset
from tests.nn.test_resnet import ResNet20, pairs
from tests.support.networks import chain, conv

CPU = torch.device("cpu")


def learner():
    return chain(conv("a", depth_factor=16.0, stride_scale=1.0), conv("b", depth_factor=2.0, stride_scale=1.0))


def evaluator(fashion, *, mixed, steps=20):
    return TorchEvaluator(fashion, Training(steps=steps, precision="mixed" if mixed else "float32"), Limits(), CPU)


def test_precision_is_a_setting_and_the_papers_rules_are_computed_in_float32(fashion):
    assert {name: preset(name).training.precision for name in PRESETS} == {
        "paper": "float32",
        "lab": "float32",
        "faithful": "float32",
        "laptop": "auto",
        "finetune": "auto",
    }
    for mixed in (False, True):
        found = evaluator(fashion, mixed=mixed).evaluate(TrainingRequest(learner(), seed=0)).evaluation
        assert (found.precision != "float32") is mixed


@pytest.mark.parametrize(
    ("instructions", "allowed", "expected"),
    [
        ({"avx512_bf16": True}, "AVX512_CORE_BF16", True),
        ({"avx512_bf16": True}, "", True),
        ({"avx512_bf16": True}, "avx2", False),
        ({"avx512_bf16": False}, "", False),
        ({}, "", False),
    ],
    ids=["faster", "faster, nothing said", "not allowed", "slower", "another architecture"],
)
def test_auto_is_mixed_where_the_processor_has_instructions_for_it(instructions, allowed, expected, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", allowed)
    assert is_mixed("auto", CPU) == expected
    assert not is_mixed("auto", torch.device("cuda"))
    assert is_mixed("mixed", CPU)
    assert not is_mixed("float32", CPU)


@pytest.mark.parametrize(("kind", "expected"), [(Conv, True), (DepthwiseConv, False), (SeparableConv, False)])
def test_auto_avoids_bfloat16_for_kinds_of_layers_that_it_slows_down(kind, expected, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    dna = chain(conv("a"), kind(id="b", from_vertex="", to_vertex=""))
    assert is_mixed("auto", CPU, dna) is expected
    assert is_mixed("mixed", CPU, dna)


def test_this_processor_tells_what_it_can_do():
    """The name of the key is torch's; a newer torch that drops it would turn `auto` off without a word."""
    import platform

    if platform.machine() == "x86_64":
        assert isinstance(torch.cpu.get_capabilities()["avx512_bf16"], bool)


@pytest.mark.thorough
def test_mixed_precision_reaches_about_the_same_accuracy(fashion):
    exact, mixed = (
        evaluator(fashion, mixed=mixed, steps=250).evaluate(TrainingRequest(learner(), seed=0))
        for mixed in (False, True)
    )
    assert exact.weights != mixed.weights
    assert exact.evaluation.fitness > 0.5
    assert abs(mixed.evaluation.fitness - exact.evaluation.fitness) < 0.1


def test_scores_and_gradients_are_as_near_to_the_truth_as_those_of_torch():
    """resnet-20 in bfloat16, as DNA and written plainly, both against the plain one in double precision."""
    torch.manual_seed(0)
    plain = ResNet20()
    ours = Model(zoo("resnet-20"), Shape(32, 32, 3), 10, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for a, b in pairs(ours, plain):
            b.add_(torch.randn_like(b) * 0.02)  # so that no scale is 1 and no shift 0
            a.copy_(b)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    ours_found = found_in_bfloat16(ours, images, labels, [a for a, _ in pairs(ours, plain)])
    plain_found = found_in_bfloat16(plain, images, labels, [b for _, b in pairs(ours, plain)])
    exact = plain.double()
    truth = found_by(exact, images.double(), labels, [b for _, b in pairs(ours, exact)])
    for name, a, b, right in zip(("scores", "gradients"), ours_found, plain_found, truth, strict=True):
        ours_off, plain_off = ((x.double() - right).norm() / right.norm() for x in (a, b))
        assert 0 < ours_off < 0.4, name
        assert ours_off < 1.25 * plain_off, name


def found_in_bfloat16(network, images, labels, parameters):
    with torch.autocast("cpu", torch.bfloat16):
        return found_by(network, images, labels, parameters)


def found_by(network, images, labels, parameters):
    """Scores, and all gradients in a row."""
    scores = network(images)
    gradients = torch.autograd.grad(functional.cross_entropy(scores.to(images.dtype), labels), parameters)
    return scores.detach(), torch.cat([gradient.flatten() for gradient in gradients])


def test_what_is_handed_over_is_float32_and_validated_as_that(fashion):
    trained = evaluator(fashion, mixed=True).evaluate(TrainingRequest(learner(), seed=0))
    again = evaluator(fashion, mixed=False, steps=0).evaluate(
        TrainingRequest(learner(), seed=0, inherited=(trained.weights,))
    )
    assert again.evaluation.fitness == trained.evaluation.fitness


def test_a_record_says_what_it_was_computed_in_and_a_plan_repeats_that(fashion):
    exact, mixed = (
        evaluator(fashion, mixed=mixed).evaluate(TrainingRequest(learner(), seed=0)) for mixed in (False, True)
    )
    assert (exact.evaluation.precision, mixed.evaluation.precision) == ("float32", "bfloat16")
    for wanted in (exact, mixed):
        budget = TrainingBudget(precision=wanted.evaluation.precision)
        for other in (False, True):
            again = evaluator(fashion, mixed=other).evaluate(TrainingRequest(learner(), seed=0, budget=budget))
            assert again.weights == wanted.weights


def test_the_loss_scale_of_float16_backs_off_and_trains(fashion, monkeypatch):
    monkeypatch.setattr("genepool.nn.device._fastest", lambda device: torch.float16)
    model = Model(learner(), fashion.image, 10, torch.Generator().manual_seed(0))
    training = TrainingRun(model, fashion, Training(steps=60, precision="mixed"), seed=0, device=CPU)
    losses = []
    training.run(lambda progress: losses.append(progress.loss))
    assert losses[-1] < 2.2
    resumed = TrainingRun(model, fashion, Training(steps=60, precision="mixed"), seed=0, device=CPU)
    resumed.resume(training.checkpoint())
    assert torch.equal(resumed.precision.state(), training.precision.state())


def test_a_gradient_that_overflows_leaves_the_step_out_and_halves_the_scale():
    precision = Precision(CPU, mixed=True, kind=torch.float16)
    weight = torch.ones(2, requires_grad=True)
    assert precision.gradients((weight * float("inf")).sum(), [weight]) is None
    assert precision.scale.item() == 32768
    [gradient] = precision.gradients((weight * 3).sum(), [weight])
    assert gradient.tolist() == [3, 3]
