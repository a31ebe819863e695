"""From a DNA to its fitness, with torch: guard the size, unfold, inherit, train, validate, count what it cost."""

from __future__ import annotations

import sys
import time
from random import Random
from typing import Literal

import msgspec
import numpy as np
import torch

from genepool.data.dataset import Dataset
from genepool.dna import (
    DNA,
    PROCESS_MEMORY,
    Capacity,
    CapacityLimit,
    Requirements,
    Shape,
    capacity,
    cropped,
    individual_flops,
    requirements,
)
from genepool.errors import ModelTooLargeError, TrainingError
from genepool.evaluation import Evaluation, Objective, Observer, Trained, TrainingBudget, TrainingRequest, ignore
from genepool.mutations import FUSION
from genepool.nn.batches import Normaliser, resident
from genepool.nn.device import give_memory_back, is_mixed, threads
from genepool.nn.inheritance import Inheritance, fused, inherit_function, inherit_weights, mixed
from genepool.nn.measure import accuracy, milliseconds
from genepool.nn.model import Model
from genepool.nn.schedules import SCHEDULES
from genepool.nn.step_count import FEWEST, IMAGES
from genepool.nn.trainer import Recipe, Training
from genepool.nn.weights import from_bytes, to_bytes
from genepool.settings import Settings

CURVE_POINTS = 100
"""At most so many losses go into the record of an individual."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest network that is trained; the search space itself has no limit."""

    parameters: int = 100_000_000
    flops: float = 0.0
    """Of one image, forward; 0: any number."""
    memory: int = 4 * 2**30
    """Bytes that a worker may grow to, as predicted from the DNA."""
    share: int | None = None
    """Bytes of the machine's memory that this worker may take, where somebody has shared it out."""


class TorchEvaluator:
    """An Evaluator (see genepool.evaluation) for one data set, one recipe and one device."""

    def __init__(
        self,
        data: Dataset,
        recipe: Recipe,
        limits: Limits,
        device: torch.device,
        inheritance: Literal["matching", "preserving", "none"] = "matching",
        objective: Objective = Objective(),  # noqa: B008 - a frozen value
    ) -> None:
        self.data, self.recipe, self.limits, self.device = data, recipe, limits, device
        self.objective = objective
        self.inheritance = inheritance
        self._image, self._classes = data.image, len(data.classes)
        self._validation_images = min(recipe.validation or sys.maxsize, len(data.validation_labels))
        self.normalise = Normaliser(data, device)

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        """See genepool.evaluation.Evaluator."""
        dna, budget = request.dna, request.budget
        ledger = _Ledger(self.objective, look=min(IMAGES, self._validation_images))
        try:
            ledger.requirements = requirements(dna, self._image, self._classes, self.recipe.batch)
            ledger.size = capacity(dna, self._image, self._classes)
            _guard(ledger.requirements, ledger.size, self._beside(request, ledger.requirements.parameters), self.limits)
            give_memory_back(beyond=PROCESS_MEMORY)
            image = cropped(self._image, budget.crop)
            ledger.training_requirements = ledger.requirements
            if image != self._image:
                ledger.training_requirements = requirements(dna, image, self._classes, self.recipe.batch)
            model = self.unfold(dna, request.seed, image)
            ledger.training = Training(
                model,
                self.data,
                self._recipe(budget, ledger.training_requirements),
                seed=request.seed,
                device=self.device,
                budget=budget,
                measure=self._look_at,
            )
            ledger.inheritance = self._inherit(model, request, ledger.training)
            if request.checkpoint is not None:
                ledger.training.resume(request.checkpoint)
            with threads(budget.threads):
                ledger.training.run(observe)
                whole = self._whole(model)
                accuracy = self.validate(whole)
            ledger.validated = self._validation_images
            if self.objective.max_milliseconds:
                ledger.milliseconds = self._milliseconds(whole)
            weights = to_bytes(model.state_dict())
        except TrainingError as error:
            return Trained(ledger.close(reason=str(error)), None)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            return Trained(ledger.close(reason="the machine ran out of memory."), None)
        return Trained(ledger.close(accuracy=accuracy), weights)

    def _beside(self, request: TrainingRequest, parameters: int) -> int:
        """Return the bytes in memory beside the network: initial weights, the order of the images, an average.

        A parent's weights exist twice while they are copied; so does a checkpoint before there are any gradients. The
        average of the weights exists twice while a checkpoint is written.
        """
        parents = sum(map(len, request.inherited))
        average = 2 * 4 * parameters if self.recipe.averaging else 0
        return 2 * parents + len(request.checkpoint or b"") + 64 * len(self.data.train_labels) + average

    def _recipe(self, budget: TrainingBudget, requirements: Requirements) -> Recipe:
        """Return the recipe in the budget's arithmetic, with the number of steps that its FLOPs allow."""
        recipe = self.recipe
        if budget.precision:
            recipe = msgspec.structs.replace(recipe, mixed=budget.precision != "float32")
        if not budget.flops:
            return recipe
        steps = max(FEWEST, int(budget.flops / requirements.training.total))
        return msgspec.structs.replace(recipe, steps=min(steps, budget.max_steps or steps))

    def _inherit(self, model: Model, request: TrainingRequest, training: Training) -> Inheritance:
        parents = [from_bytes(weights) for weights in request.inherited]
        if self.inheritance == "none" or not parents:
            return inherit_weights(model, {})
        if len(parents) == 1:
            return self._take_over(model, parents[0], training)
        first, second = parents
        if request.recombination == FUSION:
            both = fused(model.dna, first, second)
            found = inherit_weights(model, both.tensors)
        else:
            both = mixed(model, first, second, Random(f"{request.seed} mixture"))
            found = self._take_over(model, both.tensors, training)
        return msgspec.structs.replace(found, second=tuple(name for name in found.inherited if name in both.second))

    def _take_over(self, model: Model, tensors: dict[str, torch.Tensor], training: Training) -> Inheritance:
        if self.inheritance == "preserving" and tensors:
            return inherit_function(model, tensors, training.first_images())
        return inherit_weights(model, tensors)

    def unfold(self, dna: DNA, seed: int, image: Shape | None = None) -> Model:
        """The network with fresh weights, on the device."""
        model = Model(dna, image or self._image, self._classes, torch.Generator().manual_seed(seed))
        return model.to(self.device)

    def _look_at(self, model: Model) -> float:
        """The accuracy of a network that is being trained, on some of the validation images."""
        found = self.validate(self._whole(model), min(IMAGES, self._validation_images))
        model.train()
        return found

    def _whole(self, model: Model) -> Model:
        """The same weights for whole images: filters do not depend on the size, but how skips are made to fit does."""
        if model.image == self._image:
            return model
        whole = self.unfold(model.dna, seed=0)
        whole.load_state_dict(model.state_dict())
        return whole

    def validate(self, model: Model, images: int | None = None) -> float:
        """Accuracy on the validation images, or on the first of them, which are as fair a sample."""
        part = slice(images or self._validation_images)
        here = self.device.type == "cpu"
        pixels = self.data.validation_pixels if here else resident(self.data, self.device).validation_pixels
        return accuracy(model, pixels[part], self.data.validation_labels[part], self.normalise)

    def _milliseconds(self, model: Model) -> float:
        image = self.normalise(np.array(self.data.validation_pixels[:1]))
        return milliseconds(model, image)


def evaluator_for(data: Dataset, settings: Settings, device: torch.device, memory: int | None = None) -> TorchEvaluator:
    """Wires an evaluator up, with a share of the machine's memory; nothing else under nn/ knows the settings' names."""
    SCHEDULES.get(settings.schedule)  # one that is not known here is refused before there is anything to lose
    recipe = Recipe(
        steps=settings.steps,
        batch=settings.batch,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        mixed=is_mixed(settings.precision, device),
        validation=settings.validation,
        schedule=settings.schedule,
        nesterov=settings.nesterov,
        smoothing=settings.smoothing,
        averaging=settings.averaging,
    )
    limits = Limits(
        parameters=settings.max_parameters, flops=settings.max_flops, memory=settings.max_memory, share=memory
    )
    objective = Objective(
        kind=settings.objective,
        flops_target=settings.flops_target,
        flops_weight=settings.flops_weight,
        max_milliseconds=settings.max_milliseconds,
    )
    return TorchEvaluator(data, recipe, limits, device, settings.inheritance, objective)


class _Ledger:
    """What is known of an individual so far; it becomes the Evaluation, however the training ends."""

    def __init__(self, objective: Objective, look: int) -> None:
        self.look = look
        """Images for a look on the way."""
        self.started = time.perf_counter()
        self.objective = objective
        self.requirements: Requirements | None = None
        self.size = Capacity(0, 0)
        self.milliseconds: float | None = None
        self.training_requirements: Requirements | None = None
        """The same, for the crops that it is trained on."""
        self.inheritance = Inheritance()
        self.training: Training | None = None
        self.validated = 0

    def close(self, *, accuracy: float | None = None, reason: str | None = None) -> Evaluation:
        """With an accuracy, or with the reason why there is none."""
        steps = self.training.done if self.training else 0
        losses = self.training.losses if self.training else []
        return Evaluation(
            fitness=self._fitness(accuracy),
            accuracy=accuracy or 0.0,
            reason=reason,
            parameters=self.requirements.parameters if self.requirements else 0,
            flops_image=self.size.flops,
            milliseconds=self.milliseconds,
            flops_forward=self.requirements.forward.total if self.requirements else 0,
            flops_training=self.training_requirements.training.total if self.training_requirements else 0,
            flops=self._flops(steps),
            steps=steps,
            inherited=self.inheritance.inherited,
            second=self.inheritance.second,
            fresh=self.inheritance.fresh,
            losses=tuple(losses[:: 1 + len(losses) // CURVE_POINTS]),
            seconds=time.perf_counter() - self.started,
            stepping=self.training.stepping if self.training else 0.0,
            step_seconds=self.training.step_seconds if self.training else 0.0,
            precision=self.training.precision.name if self.training else "",
            step_decisions=tuple(self.training.step_count.decisions) if self.training else (),
            raced=self.training.referee.verdict if self.training else None,
            look=self.training.referee.look if self.training else None,
        )

    def _fitness(self, accuracy: float | None) -> float:
        if accuracy is None:
            return self.objective.untrained
        return self.objective.fitness(accuracy, self.size.flops, self.milliseconds)

    def _flops(self, steps: int) -> int:
        if self.requirements is None or self.training_requirements is None:
            return 0
        settling = self.training.settled * self.training_requirements.batch if self.training else 0
        looked = self.look if self.training and self.training.referee.verdict else 0
        validation = individual_flops(self.requirements, 0, self.validated + looked)
        return individual_flops(self.training_requirements, steps, settling) + validation


def _guard(requirements: Requirements, size: Capacity, beside: int, limits: Limits) -> None:
    """Refuses a network before anything is allocated: the kernel would kill the worker, not the network."""
    if (fault := CapacityLimit(limits.parameters, limits.flops).fault(size)) is not None:
        raise ModelTooLargeError(fault)
    needed = requirements.memory + beside
    if limits.share is not None and needed > limits.share:
        raise ModelTooLargeError(
            f"training needs up to {_gib(needed)}, over the {_gib(limits.share)} that are this worker's share of the "
            "machine's memory; let fewer workers share it, or give this one more with --memory."
        )
    if needed > limits.memory:
        raise ModelTooLargeError(
            f"training needs up to {_gib(needed)}, over the limit of {_gib(limits.memory)}; raise max_memory."
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def _is_out_of_memory(error: Exception) -> bool:
    """torch's CPU allocator raises a plain RuntimeError, told apart only by its words."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
