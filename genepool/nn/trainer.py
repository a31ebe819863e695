"""Training of one network (the paper's "Training and Validation")."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from genepool.data import Dataset
from genepool.dna import cropped
from genepool.errors import DataError, DivergedError
from genepool.evaluation import AS_CONFIGURED, SCHEDULES, Observer, Progress, Training, TrainingBudget
from genepool.nn.batches import ALL, batches_for
from genepool.nn.device import Precision, is_mixed
from genepool.nn.model import Model
from genepool.nn.optimiser import BATCHES, SGD, MovingVariances, TailAverage, find_statistics
from genepool.nn.parallel import Gradients, Slicing
from genepool.nn.step_count import RaceRun, StepCount
from genepool.nn.weights import from_bytes, to_bytes

REPORT_EVERY = 50  # steps between two reports of the loss: reading it makes a GPU wait
HEARTBEAT = 2.0
"""Seconds after which a slow step is reported too, but not recorded: a worker that is silent for long counts as dead.
"""


class TrainingRun:
    """One training, which can be observed, stopped and resumed between steps. The learning rate comes from the DNA.
    Momentum starts at zero: it is not inherited. `measure` returns the model's accuracy, for a race.
    """

    def __init__(
        self,
        model: Model,
        data: Dataset,
        settings: Training,
        *,
        seed: int,
        device: torch.device,
        budget: TrainingBudget = AS_CONFIGURED,
        measure: Callable[[Model], float] = lambda model: 0.0,
    ) -> None:
        self.model, self.settings = model.train(), settings
        self.step_count = StepCount(budget, settings.steps)
        self._batch = min(settings.batch, len(data.train_labels))
        self._variances = MovingVariances(model, self._batch)
        self.race = RaceRun(budget.race, self.step_count, lambda: self._measured(measure))
        self.done = 0
        self.stepping = 0.0
        """Seconds spent in steps, without the first one, which also prepares what the others use."""
        self.step_seconds = 0.0
        self.losses: list[tuple[int, float]] = []
        self.batches_after_last_step = 0
        """Batches that went through the network, forward only, after the last step."""
        size = cropped(data.image, budget.crop)[:2]
        self._batches = batches_for(data, batch=settings.batch, seed=seed, device=device, size=size)
        # The classifier is always computed in float32: alone, it gains nothing from mixed precision.
        gains = any(edge.has_weights for edge in model.dna.edges)
        self.precision = Precision(device, mixed=gains and is_mixed(settings.precision, device, model.dna))
        self.slicing = Slicing(self._gradients, model, self._variances, self._batch, self.precision.name)
        self._peak = model.dna.learning_rate * budget.learning_rate_factor
        self._schedule = SCHEDULES.get(settings.schedule)
        self._optimiser = SGD(
            model,
            learning_rate=self._peak,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
            body_rate=model.dna.body_rate,
        )
        self._average = TailAverage(model, settings.averaging)

    def first_images(self) -> Tensor:
        """Return the images of the first step."""
        return self._batches(0)[0]

    def run(self, observe: Observer) -> None:
        """Take the remaining steps; raise DivergedError if the loss is no longer finite."""
        began, first, step_count, reported = None, self.done, self.step_count, time.perf_counter()
        while self.done < step_count.steps or not step_count.is_decided:
            loss = self.step()
            began = began or time.perf_counter()
            step_count.after(self.done)
            self.race.after(self.done)
            self._average.after(self.done, step_count.steps)
            if self.done % REPORT_EVERY == 0 or self.done >= step_count.steps > 0:
                value = loss.item()
                if not math.isfinite(value):
                    raise DivergedError(f"the loss was {value} at step {self.done}.")
                self.losses.append((self.done, value))
                self.stepping = time.perf_counter() - began
                self.step_seconds = self.stepping / max(1, self.done - first - 1)
                observe(Progress(self.done, step_count.steps, value, self.checkpoint))
                reported = time.perf_counter()
            elif time.perf_counter() - reported > HEARTBEAT:
                observe(Progress(self.done, step_count.steps, loss.item(), self.checkpoint))
                reported = time.perf_counter()
        if self._average.count:
            self._apply_average()
        if self.done:
            self._variances.to_biased()

    def _measured(self, measure: Callable[[Model], float]) -> float:
        with self._variances.biased():
            return measure(self.model)

    def _apply_average(self) -> None:
        """Replace the last weights by the average, with statistics from the batches that would come next."""
        self._variances.change(self._batch)
        self._average.apply()
        coming = (self._batches(step)[0] for step in range(self.done, self.done + BATCHES))
        self.batches_after_last_step = find_statistics(self.model, coming)

    def step(self) -> Tensor:
        """Train on one batch and return the loss before the update, on the device."""
        if not self.done:
            self._variances.to_unbiased()
        loss, gradients = self.slicing.gradients(self.done)
        if gradients is not None:
            self._optimiser.learning_rate = self._peak * self._schedule(self.done, self.step_count.steps)
            self._optimiser.step(gradients)
        self.done += 1
        return loss

    def _gradients(self, step: int, part: slice = ALL) -> tuple[Tensor, Gradients | None]:
        """Return what a part of a batch contributes to its loss and gradients."""
        images, labels = self._batches(step, part)  # (images, channels, height, width), (images,)
        if self.precision.mixed:
            with self.precision.autocast():
                loss = self._loss(images, labels)
        else:
            loss = self._loss(images, labels)
        if len(labels) < self._batch:
            loss = loss * (len(labels) / self._batch)
        return loss, self.precision.gradients(loss, self._optimiser.parameters)

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        # `forward` directly: looking for the module's hooks takes longer than a small network's layer.
        return functional.cross_entropy(self.model.forward(images), labels, label_smoothing=self.settings.smoothing)

    def checkpoint(self) -> bytes:
        """Return everything that the rest of the training depends on."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"velocity.{i}": tensor for i, tensor in enumerate(self._optimiser.velocity)}
        if (scale := self.precision.state()) is not None:
            tensors["scale"] = scale
        tensors |= self._average.state() | self.race.state() | self.slicing.state()
        tensors["losses"] = torch.tensor([(self.done, 0.0), *self.losses], dtype=torch.float64)
        counted = [(self.step_count.steps, self.step_count.elapsed), *self.step_count.decisions]
        tensors["step_count"] = torch.tensor(counted, dtype=torch.float64)
        return to_bytes(tensors)

    def resume(self, checkpoint: bytes) -> None:
        """Continue from a checkpoint, bit for bit as without the interruption."""
        tensors = from_bytes(checkpoint)
        try:
            (steps, elapsed), *decisions = tensors.pop("step_count").tolist()
            (done, _), *losses = tensors.pop("losses").tolist()
            with torch.no_grad():
                for name, tensor in self.model.state_dict().items():
                    tensor.copy_(tensors[f"model.{name}"])
                for i, tensor in enumerate(self._optimiser.velocity):
                    tensor.copy_(tensors[f"velocity.{i}"])
                if self.precision.state() is not None:
                    self.precision.resume(tensors["scale"])
                self._average.resume(tensors)
            self.race.resume(tensors)
            self.slicing.resume(tensors)
        except (KeyError, IndexError, ValueError, TypeError, RuntimeError) as error:
            raise DataError(f"the checkpoint does not belong to this network: {error}.") from None
        self.done = int(done)
        self.step_count.resume([(int(at), int(steps)) for at, steps in decisions], int(steps), elapsed)
        self.losses = [(int(step), loss) for step, loss in losses]
