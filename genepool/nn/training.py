"""Training of one network (the paper's "Training and Validation")."""

from __future__ import annotations

import math
import time

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from genepool.errors import DataError, DivergedError
from genepool.evaluation import Observer, Progress
from genepool.nn.data import Dataset
from genepool.nn.model import Model
from genepool.nn.optimiser import SGD
from genepool.nn.precision import Precision
from genepool.nn.resident import batches_for
from genepool.nn.weights import from_bytes, to_bytes

LOOK_EVERY = 50
"""Steps between two looks at the loss: reading it makes a GPU wait."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How networks are trained; the defaults are the paper's."""

    steps: int = 25_600
    batch: int = 50
    momentum: float = 0.9
    weight_decay: float = 0.0001
    mixed: bool = False
    """Whether networks are computed in fewer bits than float32 has (genepool.nn.precision)."""
    validation: int = 0
    """Validation images that the fitness is measured on; 0: all."""


class Training:
    """A training that can be looked at, stopped and resumed between steps.

    The learning rate comes from the DNA and stays as it is. Momentum begins at zero: it is not inherited.
    """

    def __init__(self, model: Model, data: Dataset, recipe: Recipe, *, seed: int, device: torch.device) -> None:
        self.model = model.train()
        self.recipe = recipe
        self.done = 0
        self.stepping = 0.0
        """Seconds spent in steps, the first one left out: it also prepares what the others use."""
        self.losses: list[tuple[int, float]] = []
        self._batches = batches_for(data, batch=recipe.batch, seed=seed, device=device)
        self._precision = Precision(device, mixed=recipe.mixed)
        self._optimiser = SGD(
            model,
            learning_rate=model.dna.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )

    def run(self, observe: Observer) -> None:
        """Takes all steps that are left; DivergedError if the loss is no longer finite."""
        began = None
        while self.done < self.recipe.steps:
            loss = self.step()
            began = began or time.perf_counter()
            if self.done % LOOK_EVERY == 0 or self.done == self.recipe.steps:
                value = loss.item()
                if not math.isfinite(value):
                    raise DivergedError(f"the loss was {value} at step {self.done}.")
                self.losses.append((self.done, value))
                self.stepping = time.perf_counter() - began
                observe(Progress(self.done, self.recipe.steps, value, self.checkpoint))

    def step(self) -> Tensor:
        """One batch; its loss, before the update, stays on the device."""
        images, labels = self._batches(self.done)
        if self._precision.mixed:
            with self._precision.autocast():
                loss = functional.cross_entropy(self.model(images), labels)
        else:
            loss = functional.cross_entropy(self.model(images), labels)
        gradients = self._precision.gradients(loss, self._optimiser.parameters)
        if gradients is not None:
            self._optimiser.step(gradients)
        self.done += 1
        return loss

    def checkpoint(self) -> bytes:
        """All that the rest of the training depends on."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"velocity.{i}": tensor for i, tensor in enumerate(self._optimiser.velocity)}
        if (scale := self._precision.state()) is not None:
            tensors["scale"] = scale
        tensors["losses"] = torch.tensor([(self.done, 0.0), *self.losses], dtype=torch.float64)
        return to_bytes(tensors)

    def resume(self, checkpoint: bytes) -> None:
        """Goes back to where a checkpoint was made; the rest is then bit for bit what it would have been."""
        tensors = from_bytes(checkpoint)
        try:
            (done, _), *losses = tensors.pop("losses").tolist()
            with torch.no_grad():
                for name, tensor in self.model.state_dict().items():
                    tensor.copy_(tensors[f"model.{name}"])
                for i, tensor in enumerate(self._optimiser.velocity):
                    tensor.copy_(tensors[f"velocity.{i}"])
                if self._precision.state() is not None:
                    self._precision.resume(tensors["scale"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise DataError(f"the checkpoint is not one of this network: {error}.") from None
        self.done = int(done)
        self.losses = [(int(step), loss) for step, loss in losses]
