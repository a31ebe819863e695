"""What a study would take: experiments, workers, individuals, FLOPs, hours, disk and memory, before anything runs.

FLOPs of the paper's own experiments are those that it published. Otherwise they follow from the budget: FLOPs are
given, time is multiplied by the speed of the workers, and individuals count as if each were ResNet-20.
"""

import os
import tempfile
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from genepool.data import ArraySource, prepare
from genepool.dna import DNA, Requirements, Shape, individual_flops, initial, requirements, step_time, zoo
from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest
from genepool.settings import Settings
from genepool.study.plan import StudyPlan

PAPER_FLOPS, PAPER_WORKERS, PAPER_SECONDS = 9e19, 250, 921_600.0
"""One experiment of the paper: FLOPs, workers, and the time at which its Figure 1 ends."""
PAPER_PARAMETERS = {"cifar-10": 5_400_000, "cifar-100": 40_400_000}  # the best networks of the paper
IMAGES = {"fashion-mini": Shape(28, 28, 1), "fashion-mnist": Shape(28, 28, 1), "mnist": Shape(28, 28, 1)}
"""The shapes of images; others count as 32 x 32 in colour."""
VALIDATION_IMAGES = 5_000
RECORD = 4_000  # bytes that stay of each individual: its birth, its result and its events
BIRTH = 0.02  # seconds between two trainings of a worker: selection, mutation, files
WEIGHTS, CHECKPOINT = 4, 8  # bytes per parameter
MEASURED_FOR = 3.0  # seconds of training to measure the speed
Basis = Literal["published", "as published", "budget", "time", "ResNet-20"]
"""Where FLOPs come from; `as published`: the paper's FLOPs per worker and hour."""


class ArmEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of an arm."""

    arm: str
    workers: int
    population: int
    individuals: tuple[int, int]  # if all networks were ResNet-20, and if all were the initial one
    flops: float
    basis: Basis
    budget_seconds: float | None
    seconds: float  # the time for these FLOPs on these workers
    disk: int
    memory: int  # bytes per worker


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    rules: str
    repeats: int
    flops_per_second: float  # the speed of one worker
    measured: bool
    cores: int
    arms: tuple[ArmEstimate, ...]

    @property
    def experiments(self) -> int:
        return self.repeats * len(self.arms)

    @property
    def flops(self) -> float:
        return self.repeats * sum(arm.flops for arm in self.arms)

    @property
    def disk(self) -> int:
        return self.repeats * sum(arm.disk for arm in self.arms)


def estimate_study(plan: StudyPlan, *, flops_per_second: float | None = None, device: str = "auto") -> Estimate:
    """Estimate a plan for workers of this speed, by default that of this machine, which is measured."""
    speed = flops_per_second or measured_speed(plan.common(), device)
    return Estimate(
        rules=plan.label(), repeats=plan.repeats, flops_per_second=speed, measured=not flops_per_second,
        cores=os.cpu_count() or 1, arms=tuple(_arm(plan, arm, speed) for arm in plan.arms),
    )  # fmt: skip


def measured_speed(settings: Settings, device: str) -> float:
    """FLOPs per second of one worker on this machine, which trains ResNet-20 on random images for a moment."""
    from genepool.nn import TorchEvaluator, choose_device, prepare_process

    image, rules = _image(settings), settings.training
    pixels = np.random.default_rng(0).integers(0, 256, (1000, *image), dtype=np.uint8)
    training = Training(steps=10**6, batch=rules.batch, precision=rules.precision, validation_images=10)
    prepare_process()
    with tempfile.TemporaryDirectory() as cache:
        data = prepare(ArraySource(pixels, np.arange(1000) % 10), cache=Path(cache))
        evaluator = TorchEvaluator(data, training, Limits(), choose_device(device))
        request = TrainingRequest(_resnet(20, image), seed=0, budget=TrainingBudget(seconds=MEASURED_FOR))
        found = evaluator.evaluate(request).evaluation
    return found.flops_training / found.step_seconds


def _arm(plan: StudyPlan, arm: str, speed: float) -> ArmEstimate:
    settings = plan.settings_of(arm, 1)
    workers = settings.workers.number(settings.population.size) or os.cpu_count() or 1
    small, large = (_needs(_resnet(depth, _image(settings)), settings) for depth in (20, 110))
    flops, basis = _flops(plan, arm, settings, workers, speed)
    seconds = flops / (workers * speed)
    working = workers * (settings.budget.time or seconds)
    most = settings.budget.individuals or int(working / (BIRTH + _trivial_seconds(settings))) or 1
    least = min(most, settings.budget.individuals or max(1, int(flops / _individual(small, settings))))
    parameters = max(large.parameters, PAPER_PARAMETERS.get(settings.data.source, 0) if plan.preset == "paper" else 0)
    living = settings.population.size + workers
    return ArmEstimate(
        arm=arm, workers=workers, population=settings.population.size, individuals=(least, most), flops=flops,
        basis=basis, budget_seconds=settings.budget.time, seconds=seconds,
        disk=parameters * (WEIGHTS * living + CHECKPOINT * workers) + RECORD * most,
        memory=large.memory + 6 * WEIGHTS * (parameters - large.parameters),
    )  # fmt: skip


def _flops(plan: StudyPlan, arm: str, settings: Settings, workers: int, speed: float) -> tuple[float, Basis]:
    budget = settings.budget
    if plan.preset == "paper" and budget.flops is None and budget.time is not None:
        known = [p.flops for p in plan.points if p.arm == arm and p.data == settings.data.source]
        if known:
            return known[0], "published"
        return PAPER_FLOPS * workers / PAPER_WORKERS * budget.time / PAPER_SECONDS, "as published"
    by_time = None if budget.time is None else workers * budget.time * speed
    if budget.flops is not None and (by_time is None or budget.flops <= by_time):
        return budget.flops, "budget"
    if by_time is not None:
        return by_time, "time"
    one = _individual(_needs(_resnet(20, _image(settings)), settings), settings)
    return float(one * (budget.individuals or settings.population.size)), "ResNet-20"


def _image(settings: Settings) -> Shape:
    return IMAGES.get(settings.data.source, Shape(32, 32, 3))


def _resnet(depth: int, image: Shape) -> DNA:
    return zoo(f"resnet-{depth}", image.channels)


def _needs(dna: DNA, settings: Settings) -> Requirements:
    return requirements(dna, _image(settings), 10, settings.training.batch)


def _individual(needs: Requirements, settings: Settings) -> int:
    images = min(settings.training.validation_images or VALIDATION_IMAGES, VALIDATION_IMAGES)
    return individual_flops(needs, settings.training.steps, images)


def _trivial_seconds(settings: Settings) -> float:
    """The time of the shortest training: the initial network's."""
    seconds = settings.training.steps * step_time(initial(), _image(settings), 10, settings.training.batch).seconds
    rules, time = settings.training_budget, settings.budget.time
    return seconds if rules.share is None or time is None else min(seconds, 0.1 * rules.first_share * time)
