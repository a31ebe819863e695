"""From a DNA to its fitness, with torch: guard the size, unfold, inherit, train, validate, count what it cost."""

from __future__ import annotations

import sys
import time

import msgspec
import torch

from genepool.dna import DNA, Cost, cost, individual_flops
from genepool.dna.cost import PROCESS
from genepool.errors import ModelTooLargeError, TrainingError
from genepool.evaluation import Evaluation, Observer, Trained, ignore
from genepool.nn.accuracy import accuracy
from genepool.nn.augment import Normaliser
from genepool.nn.data import Dataset
from genepool.nn.inheritance import Inheritance, inherit_weights
from genepool.nn.model import Model
from genepool.nn.precision import Precision
from genepool.nn.resident import resident
from genepool.nn.runtime import give_memory_back
from genepool.nn.training import Recipe, Training
from genepool.nn.weights import from_bytes, to_bytes
from genepool.settings import Settings

CURVE_POINTS = 100
"""At most so many losses go into the record of an individual."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest network that is trained; the search space itself has no limit."""

    parameters: int = 100_000_000
    memory: int = 4 * 2**30
    """Bytes that a worker may grow to, as predicted from the DNA."""
    share: int | None = None
    """Bytes of the machine's memory that this worker may take, where somebody has shared it out."""


class TorchEvaluator:
    """An Evaluator (see genepool.evaluation) for one data set, one recipe and one device."""

    def __init__(self, data: Dataset, recipe: Recipe, limits: Limits, device: torch.device) -> None:
        self.data, self.recipe, self.limits, self.device = data, recipe, limits, device
        self._image, self._classes = data.image, len(data.classes)
        self._validation_images = min(recipe.validation or sys.maxsize, len(data.validation_labels))
        self.normalise = Normaliser(data, device)

    def evaluate(
        self,
        dna: DNA,
        *,
        seed: int,
        inherited: bytes | None = None,
        checkpoint: bytes | None = None,
        observe: Observer = ignore,
    ) -> Trained:
        """See genepool.evaluation.Evaluator."""
        ledger = _Ledger()
        try:
            ledger.cost = cost(dna, self._image, self._classes, self.recipe.batch)
            _guard(ledger.cost, self._beside(inherited, checkpoint), self.limits)
            give_memory_back(beyond=PROCESS)
            model = self.unfold(dna, seed)
            ledger.inheritance = inherit_weights(model, from_bytes(inherited) if inherited is not None else {})
            ledger.training = Training(model, self.data, self.recipe, seed=seed, device=self.device)
            if checkpoint is not None:
                ledger.training.resume(checkpoint)
            ledger.training.run(observe)
            fitness = self.validate(model)
            ledger.validated = self._validation_images
            weights = to_bytes(model.state_dict())
        except TrainingError as error:
            return Trained(ledger.close(reason=str(error)), None)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            return Trained(ledger.close(reason="the machine ran out of memory."), None)
        return Trained(ledger.close(fitness=fitness), weights)

    def _beside(self, inherited: bytes | None, checkpoint: bytes | None) -> int:
        """Bytes that are in memory beside the network: what it begins with, and the order of the images.

        A parent's weights are there twice while they are copied; a checkpoint is so before there are any gradients.
        """
        return 2 * len(inherited or b"") + len(checkpoint or b"") + 64 * len(self.data.train_labels)

    def unfold(self, dna: DNA, seed: int) -> Model:
        """The network with fresh weights, on the device."""
        model = Model(dna, self._image, self._classes, torch.Generator().manual_seed(seed))
        return model.to(self.device)

    def validate(self, model: Model) -> float:
        """The fitness: accuracy on the validation images, or on the first of them, which are as fair a sample."""
        part = slice(self._validation_images)
        here = self.device.type == "cpu"
        pixels = self.data.validation_pixels if here else resident(self.data, self.device).validation_pixels
        with Precision(self.device, mixed=self.recipe.mixed).autocast():
            return accuracy(model, pixels[part], self.data.validation_labels[part], self.normalise)


def evaluator_for(data: Dataset, settings: Settings, device: torch.device, memory: int | None = None) -> TorchEvaluator:
    """Wires an evaluator up, with a share of the machine's memory; nothing else under nn/ knows the settings' names."""
    recipe = Recipe(
        steps=settings.steps,
        batch=settings.batch,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        mixed=settings.precision == "mixed",
        validation=settings.validation,
    )
    limits = Limits(parameters=settings.max_parameters, memory=settings.max_memory, share=memory)
    return TorchEvaluator(data, recipe, limits, device)


class _Ledger:
    """What is known of an individual so far; it becomes the Evaluation, however the training ends."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.cost: Cost | None = None
        self.inheritance = Inheritance()
        self.training: Training | None = None
        self.validated = 0

    def close(self, *, fitness: float = 0.0, reason: str | None = None) -> Evaluation:
        steps = self.training.done if self.training else 0
        losses = self.training.losses if self.training else []
        return Evaluation(
            fitness=fitness,
            reason=reason,
            parameters=self.cost.parameters if self.cost else 0,
            flops_forward=self.cost.forward.total if self.cost else 0,
            flops_training=self.cost.training.total if self.cost else 0,
            flops=individual_flops(self.cost, steps, self.validated) if self.cost else 0,
            steps=steps,
            inherited=self.inheritance.inherited,
            fresh=self.inheritance.fresh,
            losses=tuple(losses[:: 1 + len(losses) // CURVE_POINTS]),
            seconds=time.perf_counter() - self.started,
            stepping=self.training.stepping if self.training else 0.0,
        )


def _guard(cost: Cost, beside: int, limits: Limits) -> None:
    """Refuses a network before anything is allocated: the kernel would kill the worker, not the network."""
    if cost.parameters > limits.parameters:
        raise ModelTooLargeError(
            f"{cost.parameters:,} parameters are over the limit of {limits.parameters:,}; raise max_parameters."
        )
    needed = cost.memory + beside
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
