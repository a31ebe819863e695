"""Races: the verdicts, that measuring leaves no trace, and that races can be repeated and resumed."""

import msgspec
import pytest
import torch

from genepool.dna import requirements
from genepool.errors import DataError
from genepool.evaluation import Limits, Race, Training, TrainingBudget, TrainingRequest
from genepool.nn import Model, TorchEvaluator, TrainingRun, from_bytes, trainer
from genepool.nn.step_count import RACE_IMAGES, RaceRun, StepCount, judge
from tests.nn.test_step_count import Clock, Ticking
from tests.support.networks import chain, conv

CPU = torch.device("cpu")
DNA = chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b"))
RECIPE = Training(steps=120, schedule="linear", nesterov=True)
UNBEATABLE, POOR = 0.99, 0.01


def against(rival, **more):
    return TrainingBudget(race=Race(look=0.5, rival=rival, stretch=1.5), **more)


def evaluator(data, recipe=RECIPE):
    return TorchEvaluator(data, recipe, Limits(), CPU)


def as_good_as(look):
    """A rival with whom a child of this accuracy is about even."""
    return max((k / 1000 for k in range(1000) if judge(look, k / 1000) == "kept"), default=None)


def test_half_as_many_errors_again_lose_and_clearly_fewer_win():
    assert [judge(0.9 - lag, 0.9) for lag in (0.06, 0.05, 0.03, 0.0, -0.003)] == ["stopped"] * 2 + ["kept"] * 3
    assert judge(0.91, 0.9) == "longer"
    assert judge(0.0, 0.1) == "kept"  # no child loses against a parent that knows nothing
    assert judge(1.0, 1.0) == "kept"


def test_a_clear_loser_stops_at_the_look_and_says_so(fashion):
    trained = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(UNBEATABLE)))
    found = trained.evaluation
    assert (found.raced, found.steps, found.step_decisions, found.reason) == ("stopped", 60, ((60, 60),), None)
    assert found.look[0] == 60
    needs = requirements(DNA, fashion.image, 10)
    images = RACE_IMAGES + len(fashion.validation_labels)
    assert found.flops == 60 * needs.training.total + needs.forward.total * images // 50


def test_what_is_kept_of_a_loser_are_the_weights_at_the_look_and_their_true_fitness(fashion):
    ours = evaluator(fashion)
    trained = ours.evaluate(TrainingRequest(DNA, seed=3, budget=against(UNBEATABLE)))
    model = Model(DNA, fashion.image, 10, torch.Generator().manual_seed(3))
    training = TrainingRun(model, fashion, RECIPE, seed=3, device=CPU)
    for _ in range(60):
        training.step()
    training._variances.to_biased()
    weights = from_bytes(trained.weights)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert ours.validate(model) == trained.evaluation.fitness
    assert ours.validate(model, RACE_IMAGES) == trained.evaluation.look[1]


def test_a_clear_winner_trains_longer(fashion):
    found = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(POOR))).evaluation
    assert (found.raced, found.steps, found.step_decisions) == ("longer", 150, ((60, 150),))


def test_a_winner_without_room_in_the_budget_ends_as_planned(fashion):
    budget = TrainingBudget(race=Race(look=0.5, rival=POOR))
    found = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=budget)).evaluation
    assert (found.raced, found.steps, found.step_decisions) == ("longer", 120, ())


def test_a_look_that_decides_nothing_leaves_no_trace(fashion):
    plain = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3))
    look = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(UNBEATABLE))).evaluation.look
    looked = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(as_good_as(look[1]))))
    assert (plain.evaluation.raced, looked.evaluation.raced) == (None, "kept")
    assert looked.evaluation.look == look
    assert looked.weights == plain.weights
    assert looked.evaluation.losses == plain.evaluation.losses


@pytest.mark.parametrize("rival", [UNBEATABLE, POOR])
def test_a_repetition_follows_the_record_and_not_the_look(rival, fashion):
    first = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(rival)))
    race = Race(look=0.5, rival=1.0 - rival, stretch=1.5, verdict=first.evaluation.raced)
    again = evaluator(fashion).evaluate(
        TrainingRequest(DNA, seed=3, budget=TrainingBudget(race=race, step_decisions=first.evaluation.step_decisions))
    )
    assert again.weights == first.weights
    assert again.evaluation.look is None
    assert again.evaluation.flops == first.evaluation.flops
    assert again.evaluation.raced == first.evaluation.raced


@pytest.mark.parametrize("rival", [UNBEATABLE, POOR])
@pytest.mark.parametrize("averaging", [0.0, 0.7])
def test_trainings_by_time_repeat_too(rival, averaging, fashion, monkeypatch):
    monkeypatch.setattr(trainer, "StepCount", Ticking)
    ours = evaluator(fashion, msgspec.structs.replace(RECIPE, averaging=averaging))
    first = ours.evaluate(TrainingRequest(DNA, seed=3, budget=against(rival, seconds=0.8)))
    assert first.evaluation.raced == ("stopped" if rival == UNBEATABLE else "longer")
    race = Race(look=0.5, rival=rival, stretch=1.5, verdict=first.evaluation.raced)
    again = ours.evaluate(
        TrainingRequest(
            DNA, seed=3, budget=TrainingBudget(seconds=0.8, race=race, step_decisions=first.evaluation.step_decisions)
        )
    )
    assert again.weights == first.weights
    assert again.evaluation.steps == first.evaluation.steps


def test_crops_are_looked_at_as_whole_images(fashion):
    found = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(UNBEATABLE, crop=0.5))).evaluation
    assert found.raced == "stopped"
    assert found.fitness == pytest.approx(found.look[1], abs=0.06)


class EnoughError(Exception):
    """Raised by an observer that has seen enough."""


def stopped_at(step, data, budget, recipe=RECIPE):
    kept = []

    def stop(progress):
        if progress.step == step:
            kept.append(progress.checkpoint())
            raise EnoughError

    with pytest.raises(EnoughError):
        evaluator(data, recipe).evaluate(TrainingRequest(DNA, seed=3, budget=budget), stop)
    return kept[0]


@pytest.mark.parametrize(
    ("rival", "stop_at"),
    [
        (POOR, 50),
        (UNBEATABLE, 60),
        *(pytest.param(*it, marks=pytest.mark.thorough) for it in ((POOR, 100), (UNBEATABLE, 50))),
    ],
)
def test_a_resumed_race_ends_bit_for_bit_where_an_unbroken_one_does(rival, stop_at, fashion):
    checkpoint = stopped_at(stop_at, fashion, against(rival))
    resumed = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, checkpoint=checkpoint, budget=against(rival)))
    unbroken = evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, budget=against(rival)))
    assert resumed.weights == unbroken.weights
    for name in ("raced", "look", "step_decisions", "steps", "flops", "fitness"):
        assert getattr(resumed.evaluation, name) == getattr(unbroken.evaluation, name)


def test_a_decision_is_remembered_and_not_made_again(fashion):
    checkpoint = stopped_at(100, fashion, against(POOR))
    resumed = evaluator(fashion).evaluate(
        TrainingRequest(DNA, seed=3, checkpoint=checkpoint, budget=against(UNBEATABLE))
    )
    assert (resumed.evaluation.raced, resumed.evaluation.steps) == ("longer", 150)


def test_a_checkpoint_without_a_race_is_none_of_a_raced_training(fashion):
    checkpoint = stopped_at(50, fashion, TrainingBudget())
    with pytest.raises(DataError, match="does not belong to this network"):
        evaluator(fashion).evaluate(TrainingRequest(DNA, seed=3, checkpoint=checkpoint, budget=against(POOR)))


def race_by_the_clock(rival, look_takes=0.0):
    """Ten seconds for steps of 10 ms; at the look half of the images are right."""
    clock, done = Clock(), 0
    step_count = StepCount(TrainingBudget(seconds=10.0), 10**6, clock)

    def measure():
        clock.now += look_takes
        return 0.5

    race = RaceRun(Race(look=0.5, rival=rival, stretch=1.5), step_count, measure)
    while done < step_count.steps or not step_count.is_decided:
        clock.now += 0.01
        done += 1
        step_count.after(done)
        race.after(done)
    return done, clock.now - 100, step_count, race


def test_time_is_prolonged_with_the_steps_and_saved_with_them():
    done, took, _, race = race_by_the_clock(POOR)
    assert took == pytest.approx(12.5, rel=0.05)
    assert done == pytest.approx(1250, rel=0.05)
    assert race.verdict == "longer"
    done, took, *_ = race_by_the_clock(UNBEATABLE)
    assert took == pytest.approx(5.0, rel=0.05)
    assert done == pytest.approx(500, rel=0.05)


def test_a_slow_look_takes_its_time_from_the_steps_but_does_not_make_them_seem_slow():
    done, took, step_count, _ = race_by_the_clock(as_good_as(0.5), look_takes=2.0)
    assert took == pytest.approx(10.0, rel=0.05)
    assert done == pytest.approx(800, rel=0.05)
    assert min(steps for _, steps in step_count.decisions) > 760


def test_a_longer_time_is_kept_in_the_checkpoint():
    *_, step_count, race = race_by_the_clock(POOR)
    later = StepCount(TrainingBudget(seconds=10.0), 10**6)
    again = RaceRun(Race(look=0.5, rival=POOR, stretch=1.5), later, lambda: 1.0)
    again.resume(race.state())
    assert later.seconds == step_count.seconds == pytest.approx(12.5, rel=0.02)
    assert (again.verdict, again.look) == (race.verdict, race.look)
