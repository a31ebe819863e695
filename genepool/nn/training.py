"""Training of one network (the paper's "Training and Validation")."""

from __future__ import annotations

import math

import msgspec
import torch
from torch.nn import functional

from genepool.errors import DivergedError
from genepool.evaluation import Observer
from genepool.nn.augment import Batches
from genepool.nn.data import Dataset
from genepool.nn.model import Model
from genepool.nn.optimiser import SGD

LOOK_EVERY = 50
"""Steps between two looks at the loss: reading it makes a GPU wait."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How networks are trained; the defaults are the paper's."""

    steps: int = 25_600
    batch: int = 50
    momentum: float = 0.9
    weight_decay: float = 0.0001


class Training:
    """A training that can be looked at between steps. The learning rate comes from the DNA and stays as it is."""

    def __init__(self, model: Model, data: Dataset, recipe: Recipe, *, seed: int, device: torch.device) -> None:
        self.model = model.train()
        self.recipe = recipe
        self.done = 0
        self._batches = Batches(data, batch=recipe.batch, seed=seed, device=device)
        self._optimiser = SGD(
            model,
            learning_rate=model.dna.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )

    def run(self, observe: Observer) -> None:
        """Takes all steps that are left; DivergedError if the loss is no longer finite."""
        while self.done < self.recipe.steps:
            images, labels = self._batches(self.done)
            loss = functional.cross_entropy(self.model(images), labels)
            self._optimiser.step(torch.autograd.grad(loss, self._optimiser.parameters))
            self.done += 1
            if self.done % LOOK_EVERY == 0 or self.done == self.recipe.steps:
                value = loss.item()
                observe(self.done, value)
                if not math.isfinite(value):
                    raise DivergedError(f"the loss was {value} at step {self.done}.")
