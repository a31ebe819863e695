"""From a DNA to its fitness: check its size, build it, inherit weights, train, validate, count FLOPs."""

from __future__ import annotations

import sys
import time
from random import Random

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genepool.data import Dataset
from genepool.dna import (
    DNA,
    PROCESS_MEMORY,
    VALIDATION_BATCH,
    Capacity,
    Requirements,
    Shape,
    capacity,
    cropped,
    individual_flops,
    requirements,
)
from genepool.errors import ModelTooLargeError, TrainingError
from genepool.evaluation import (
    SCHEDULES,
    Evaluation,
    Leader,
    Limits,
    Objective,
    Observer,
    Trained,
    Training,
    TrainingBudget,
    TrainingRequest,
    ignore,
)
from genepool.layers import fault_of
from genepool.mutations import FUSION
from genepool.nn.batches import Normaliser, resident
from genepool.nn.device import give_memory_back, threads
from genepool.nn.inheritance import Inheritance, fused, inherit_function, inherit_weights, mixed
from genepool.nn.model import Model
from genepool.nn.step_count import RACE_IMAGES
from genepool.nn.trainer import TrainingRun
from genepool.nn.weights import from_bytes, to_bytes

CURVE_POINTS = 100  # the most losses in the record of an individual


class TorchEvaluator:
    """An Evaluator (see genepool.evaluation) for one data set and one device, which may use `memory` bytes."""

    def __init__(
        self,
        data: Dataset,
        training: Training,
        limits: Limits,
        device: torch.device,
        objective: Objective = Objective(),  # noqa: B008 - a frozen value
        memory: int | None = None,
    ) -> None:
        SCHEDULES.get(training.schedule)  # an unknown one is refused before there is anything to lose
        self.data, self.training, self.limits, self.device = data, training, limits, device
        self.objective, self._memory = objective, memory
        self._image, self._classes = data.image, len(data.classes)
        self._validation_images = min(training.validation_images or sys.maxsize, len(data.validation_labels))
        self.normalise = Normaliser(data, device)

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        """See genepool.evaluation.Evaluator."""
        dna, budget = request.dna, request.budget
        ledger = _Ledger(self.objective, self.limits, race_images=min(RACE_IMAGES, self._validation_images))
        try:
            ledger.requirements = requirements(dna, self._image, self._classes, self.training.batch)
            ledger.size = capacity(dna, self._image, self._classes)
            extra = self._extra_memory(request, ledger.requirements.parameters)
            self._check_limits(ledger.requirements, ledger.size, extra)
            give_memory_back(beyond=PROCESS_MEMORY)
            ledger.training_requirements = self._requirements(request)
            ledger.training = self._training_run(request, ledger.training_requirements)
            model = ledger.training.model
            ledger.inheritance = self._inherit(model, request, ledger.training)
            if request.checkpoint is not None:
                ledger.training.resume(request.checkpoint)
                ledger.resumed = ledger.training.done
            ledger.training.slicing.share(request.peers)
            with threads(budget.threads):
                ledger.training.run(lambda progress: observe(progress._replace(flops=ledger.executed())))
                final = self._for_full_images(model)
                accuracy = self.validate(final)
            ledger.validated = self._validation_images
            if self.limits.milliseconds is not None:
                ledger.milliseconds = milliseconds(final, self.normalise(np.array(self.data.validation_pixels[:1])))
            weights = to_bytes(model.state_dict())
        except TrainingError as error:
            return Trained(ledger.close(reason=str(error)), None)
        except Exception as error:
            if (reason := _reason(error, dna)) is None:
                raise
            return Trained(ledger.close(reason=reason), None)
        return Trained(ledger.close(accuracy=accuracy), weights)

    def help(self, request: TrainingRequest, leader: Leader) -> None:
        """See genepool.evaluation.PeerEvaluator."""
        try:
            needed = requirements(request.dna, self._image, self._classes, self.training.batch)
            size = capacity(request.dna, self._image, self._classes)
            self._check_limits(needed, size, self._extra_memory(request, needed.parameters))
            give_memory_back(beyond=PROCESS_MEMORY)
            self._training_run(request, self._requirements(request)).slicing.help(leader)
        except TrainingError:
            raise
        except Exception as error:
            if (reason := _reason(error, request.dna)) is None:
                raise
            raise TrainingError(reason) from error

    def _requirements(self, request: TrainingRequest) -> Requirements:
        """Return what the training needs, for the crops that it sees."""
        image = cropped(self._image, request.budget.crop)
        return requirements(request.dna, image, self._classes, self.training.batch)

    def _training_run(self, request: TrainingRequest, needs: Requirements) -> TrainingRun:
        image = cropped(self._image, request.budget.crop)
        run = TrainingRun(
            self.unfold(request.dna, request.seed, image),
            self.data,
            self._training(request.budget, needs),
            seed=request.seed,
            device=self.device,
            budget=request.budget,
            measure=self._validate_partly,
        )
        run.slicing.repeat(request.budget.slices)
        return run

    def _extra_memory(self, request: TrainingRequest, parameters: int) -> int:
        """Return the bytes needed besides the network: initial weights, the order of the images, an average. A parent's
        weights exist twice while they are copied, an average while a checkpoint is written.
        """
        parents = sum(map(len, request.inherited))
        average = 2 * 4 * parameters if self.training.averaging else 0
        return 2 * parents + len(request.checkpoint or b"") + 64 * len(self.data.train_labels) + average

    def _training(self, budget: TrainingBudget, requirements: Requirements) -> Training:
        """Return the settings in the budget's arithmetic, with the number of steps that its FLOPs allow."""
        settings = self.training
        if budget.precision:
            precision = "float32" if budget.precision == "float32" else "mixed"
            settings = msgspec.structs.replace(settings, precision=precision)
        if not budget.flops:
            return settings
        steps = max(budget.min_steps, int(budget.flops / requirements.training.total))
        return msgspec.structs.replace(settings, steps=min(steps, budget.max_steps or steps))

    def _check_limits(self, requirements: Requirements, size: Capacity, extra: int) -> None:
        """Refuse a network before anything is allocated: the kernel would kill the worker, not the network."""
        if (fault := self.limits.fault(size)) is not None:
            raise ModelTooLargeError(fault)
        needed = requirements.memory + extra
        if self._memory is not None and needed > self._memory:
            raise ModelTooLargeError(
                f"training needs up to {_gib(needed)}, over the {_gib(self._memory)} that are this worker's share of "
                "the machine's memory; let fewer workers share it, or give this one more with --memory."
            )
        if self.limits.memory is not None and needed > self.limits.memory:
            raise ModelTooLargeError(
                f"training needs up to {_gib(needed)}, over the limit of {_gib(self.limits.memory)}; "
                "raise limits.memory."
            )

    def _inherit(self, model: Model, request: TrainingRequest, training: TrainingRun) -> Inheritance:
        parents = [from_bytes(weights) for weights in request.inherited]
        if self.training.inheritance == "none" or not parents:
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

    def _take_over(self, model: Model, tensors: dict[str, torch.Tensor], training: TrainingRun) -> Inheritance:
        if self.training.inheritance == "preserving" and tensors:
            return inherit_function(model, tensors, training.first_images())
        return inherit_weights(model, tensors)

    def unfold(self, dna: DNA, seed: int, image: Shape | None = None) -> Model:
        """Build the network with random weights on the device."""
        model = Model(dna, image or self._image, self._classes, torch.Generator().manual_seed(seed))
        return model.to(self.device)

    def _validate_partly(self, model: Model) -> float:
        """Return the accuracy of a network in training on some of the validation images."""
        found = self.validate(self._for_full_images(model), min(RACE_IMAGES, self._validation_images))
        model.train()
        return found

    def _for_full_images(self, model: Model) -> Model:
        """Return a model with the same weights for full images: filters do not depend on the size, but skips do."""
        if model.image == self._image:
            return model
        full = self.unfold(model.dna, seed=0)
        full.load_state_dict(model.state_dict())
        return full

    def validate(self, model: Model, images: int | None = None) -> float:
        """Return the accuracy on the validation images, or on the first of them, which are a fair sample."""
        part = slice(images or self._validation_images)
        here = self.device.type == "cpu"
        pixels = self.data.validation_pixels if here else resident(self.data, self.device).validation_pixels
        return accuracy(model, pixels[part], self.data.validation_labels[part], self.normalise)


class _Ledger:
    """The facts about an individual so far; they become the Evaluation, however the training ends."""

    def __init__(self, objective: Objective, limits: Limits, race_images: int) -> None:
        self.objective, self.limits, self.race_images = objective, limits, race_images
        self.started = time.perf_counter()
        self.requirements: Requirements | None = None
        self.training_requirements: Requirements | None = None
        """The requirements for the crops that it is trained on."""
        self.size = Capacity(0, 0)
        self.milliseconds: float | None = None
        self.inheritance = Inheritance()
        self.training: TrainingRun | None = None
        self.resumed = 0
        self.validated = 0

    def close(self, *, accuracy: float | None = None, reason: str | None = None) -> Evaluation:
        """Make the Evaluation, with an accuracy or with the reason why there is none."""
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
            resumed=self.resumed,
            inherited=self.inheritance.inherited,
            second=self.inheritance.second,
            fresh=self.inheritance.fresh,
            losses=tuple(losses[:: 1 + len(losses) // CURVE_POINTS]),
            seconds=time.perf_counter() - self.started,
            stepping=self.training.stepping if self.training else 0.0,
            step_seconds=self.training.step_seconds if self.training else 0.0,
            precision=self.training.precision.name if self.training else "",
            step_decisions=tuple(self.training.step_count.decisions) if self.training else (),
            slices=tuple(self.training.slicing.decisions) if self.training else (),
            raced=self.training.race.verdict if self.training else None,
            look=self.training.race.look if self.training else None,
        )

    def _fitness(self, accuracy: float | None) -> float:
        if accuracy is None:
            return self.limits.untrained
        return self.limits.penalised(self.objective.fitness(accuracy, self.size.flops), self.milliseconds)

    def executed(self) -> int:
        """FLOPs of this attempt so far, without the steps before the checkpoint."""
        return self._flops(self.training.done - self.resumed if self.training else 0)

    def _flops(self, steps: int) -> int:
        if self.requirements is None or self.training_requirements is None:
            return 0
        needs = self.training_requirements
        later = self.training.batches_after_last_step * needs.batch if self.training else 0
        raced = self.race_images if self.training and self.training.race.verdict else 0
        validation = individual_flops(self.requirements, 0, self.validated + raced)
        return individual_flops(needs, steps, later) + validation


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def _reason(error: Exception, dna: DNA) -> str | None:
    """Why the network could not be trained, if that is the network's or the machine's fault and not a bug."""
    if _is_out_of_memory(error):
        return "the machine ran out of memory."
    return fault_of(error, dna.layers)


def _is_out_of_memory(error: Exception) -> bool:
    """torch's CPU allocator raises a plain RuntimeError that only its text identifies."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def accuracy(
    model: Model, pixels: NDArray[np.uint8] | Tensor, labels: NDArray[np.int64], normalise: Normaliser
) -> float:
    """Return the accuracy on all images, which may be on the device already; it is read from there once, at the end."""
    network = model.for_validation()
    answers = torch.from_numpy(np.array(labels)).to(normalise.device)
    right = torch.zeros((), dtype=torch.int64, device=normalise.device)
    for start in range(0, len(labels), VALIDATION_BATCH):
        part = pixels[start : start + VALIDATION_BATCH]
        images = normalise.of_tensor(part) if isinstance(part, Tensor) else normalise(np.array(part))
        right += (network(images).argmax(1) == answers[start : start + VALIDATION_BATCH]).sum()
    return int(right) / len(labels)


WARM_UP = 3
FEWEST_RUNS, MOST_RUNS = 5, 50
LONGEST = 0.2  # seconds after which no more than FEWEST_RUNS are timed


def milliseconds(model: Model, image: Tensor) -> float:
    """Return the inference time of one image, the fastest of several runs: other load can only slow them down. The
    answer is read each time, so that a GPU has really computed it.
    """
    network = model.for_validation()
    fastest, began = float("inf"), time.perf_counter()
    for run in range(WARM_UP + MOST_RUNS):
        start = time.perf_counter()
        if run >= WARM_UP + FEWEST_RUNS and start - began > LONGEST:
            break
        network(image).argmax(1).item()
        if run >= WARM_UP:
            fastest = min(fastest, time.perf_counter() - start)
    return 1000 * fastest
