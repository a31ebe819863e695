"""How many steps fit into a time, with a simulated clock; and timed trainings, with a real one."""

import pytest
import torch

from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest, ignore
from genepool.nn import TorchEvaluator, trainer
from genepool.nn.step_count import StepCount
from tests.support.networks import chain, conv

FEWEST = TrainingBudget().min_steps
DNA = chain(conv("a", depth_factor=8.0, stride_scale=1.0))
TIMED = Training(steps=10**6, schedule="linear", nesterov=True, smoothing=0.1)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def steps_taken(step_count, clock, seconds_of):
    done = 0
    while done < step_count.steps or not step_count.is_decided:
        clock.now += seconds_of(done)
        done += 1
        step_count.after(done)
        assert done < 10**6
    return done


def test_a_number_that_is_given_stays():
    step_count = StepCount(TrainingBudget(), 120)
    assert steps_taken(step_count, Clock(), lambda done: 1.0) == 120
    assert step_count.decisions == []


@pytest.mark.parametrize("seconds", [1.0, 5.0, 60.0])
def test_steps_fill_the_time(seconds):
    clock = Clock()
    step_count = StepCount(TrainingBudget(seconds=seconds), 10**6, clock)
    done = steps_taken(step_count, clock, lambda done: 0.5 if done == 0 else 0.01)
    assert clock.now - 100 == pytest.approx(max(seconds, 0.5 + FEWEST * 0.01), rel=0.05)
    assert done == pytest.approx((clock.now - 100.5) / 0.01, abs=2)


def test_a_machine_that_slows_down_does_not_make_it_late():
    clock = Clock()
    step_count = StepCount(TrainingBudget(seconds=20.0), 10**6, clock)
    steps_taken(step_count, clock, lambda done: 0.01 if done < 500 else 0.04)
    assert clock.now - 100 == pytest.approx(20.0, rel=0.15)


@pytest.mark.parametrize("moment", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("factor", [3.0, 30.0])
def test_other_programs_that_take_the_cores_do_not_make_it_late(moment, factor):
    """A run of ten minutes once took 21: its last training had decided on its steps too early."""
    clock = Clock()
    step_count = StepCount(TrainingBudget(seconds=240.0), 10**6, clock)
    steps_taken(step_count, clock, lambda done: 0.2 * (factor if clock.now > 100 + 240 * moment else 1.0))
    assert clock.now - 100 <= 240.0 + 0.2 * factor
    assert len(step_count.decisions) <= 60


def test_the_number_of_steps_follows_a_machine_that_becomes_faster():
    clock = Clock()
    step_count = StepCount(TrainingBudget(seconds=240.0), 10**6, clock)
    done = steps_taken(step_count, clock, lambda done: 0.2 if clock.now < 220 else 0.05)
    assert done == pytest.approx(600 + 2400, rel=0.02)
    assert clock.now - 100 == pytest.approx(240.0, rel=0.01)


def test_even_the_slowest_network_takes_some_steps():
    clock = Clock()
    assert steps_taken(StepCount(TrainingBudget(seconds=1.0), 10**6, clock), clock, lambda done: 10.0) == FEWEST


@pytest.mark.parametrize(("seconds", "fewest", "steps"), [(60.0, 5, 12), (600.0, 5, 120), (3.0, 5, 5), (3.0, 1, 1)])
def test_slow_steps_fill_the_time_if_few_are_allowed(seconds, fewest, steps):
    """Pretrained networks have slow steps and learn from few of them."""
    clock = Clock()
    budget = TrainingBudget(seconds=seconds, min_steps=fewest)
    done = steps_taken(StepCount(budget, 10**6, clock), clock, lambda done: 5.0)
    assert done == pytest.approx(steps, abs=1)


def test_a_slow_training_sends_heartbeats(fashion, monkeypatch):
    monkeypatch.setattr(trainer, "HEARTBEAT", 0.0)
    seen = []
    evaluator = TorchEvaluator(fashion, Training(steps=60), Limits(), torch.device("cpu"))
    often = evaluator.evaluate(TrainingRequest(DNA, 0), lambda progress: seen.append(progress.step))
    assert seen == list(range(1, 61))
    monkeypatch.setattr(trainer, "HEARTBEAT", 1e9)
    seldom = evaluator.evaluate(TrainingRequest(DNA, 0))
    assert often.weights == seldom.weights and often.evaluation.losses == seldom.evaluation.losses


def test_a_small_network_takes_no_more_than_it_may():
    clock = Clock()
    assert (
        steps_taken(StepCount(TrainingBudget(seconds=20.0, max_steps=500), 10**6, clock), clock, lambda done: 0.01)
        == 500
    )
    assert (
        steps_taken(StepCount(TrainingBudget(seconds=20.0, max_steps=500), 10**6, clock), clock, lambda done: 0.1) < 210
    )


def test_decisions_repeat_a_step_count_without_a_clock():
    clock = Clock()
    first = StepCount(TrainingBudget(seconds=20.0), 10**6, clock)
    done = steps_taken(first, clock, lambda done: 0.01 + done % 700 / 1e5)
    again = StepCount(TrainingBudget(seconds=20.0, step_decisions=tuple(first.decisions)), 10**6, clock)
    assert steps_taken(again, clock, lambda done: 7.0) == done
    assert again.decisions == first.decisions


class Ticking(StepCount):
    """Counts by a clock that advances about 4 ms per step, however busy the machine is."""

    def __init__(self, budget, steps):
        self.ticks = Clock()
        super().__init__(budget, steps, self.ticks)

    def after(self, done):
        self.ticks.now += 0.004 + done % 70 / 1e5
        super().after(done)


def evaluator(data, training=TIMED):
    return TorchEvaluator(data, training, Limits(), torch.device("cpu"))


def test_a_training_by_time_ends_in_time(fashion, monkeypatch):
    monkeypatch.setattr(trainer, "StepCount", Ticking)
    found = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=1.0))).evaluation
    assert found.steps == found.step_decisions[-1][1] == pytest.approx(1.0 / 0.00435, rel=0.05)


def test_a_training_by_time_repeats_from_its_record(fashion):
    first = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=1.0)))
    assert first.evaluation.steps >= FEWEST
    again = evaluator(fashion).evaluate(
        TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=1.0, step_decisions=first.evaluation.step_decisions))
    )
    assert again.weights == first.weights
    assert again.evaluation.fitness == first.evaluation.fitness


def test_a_training_by_time_resumes_where_it_was_stopped(fashion, monkeypatch):
    monkeypatch.setattr(trainer, "StepCount", Ticking)
    kept = {}

    class Stop(Exception):  # noqa: N818
        pass

    def stop(progress):
        kept["checkpoint"], kept["step"] = progress.checkpoint(), progress.step
        raise Stop

    with pytest.raises(Stop):
        evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=3.0)), stop)
    seen = []
    ended = evaluator(fashion).evaluate(
        TrainingRequest(DNA, seed=3, checkpoint=kept["checkpoint"], budget=TrainingBudget(seconds=3.0)),
        lambda p: seen.append(p.step),
    )
    assert min(seen) > kept["step"]
    assert ended.evaluation.step_decisions[0][0] <= kept["step"]
    again = evaluator(fashion).evaluate(
        TrainingRequest(DNA, seed=3, budget=TrainingBudget(seconds=3.0, step_decisions=ended.evaluation.step_decisions))
    )
    assert again.weights == ended.weights


def test_small_crops_cost_less_and_are_validated_on_whole_images(fashion):
    whole = evaluator(fashion, Training(steps=60)).evaluate(TrainingRequest(DNA, seed=1), ignore).evaluation
    small = (
        evaluator(fashion, Training(steps=60))
        .evaluate(TrainingRequest(DNA, seed=1, budget=TrainingBudget(crop=0.5)))
        .evaluation
    )
    assert small.flops_training == pytest.approx(whole.flops_training / 4, rel=0.1)
    assert small.flops_forward == whole.flops_forward
    assert small.fitness > 0.2


def test_the_learning_rate_factor_scales_the_learning_rate(fashion):
    cold = (
        evaluator(fashion, Training(steps=20))
        .evaluate(TrainingRequest(DNA, seed=1, budget=TrainingBudget(learning_rate_factor=0.5)))
        .weights
    )
    slow = (
        evaluator(fashion, Training(steps=20)).evaluate(TrainingRequest(DNA.edited(learning_rate=0.05), seed=1)).weights
    )
    assert cold == slow
