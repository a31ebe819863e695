"""A training loop as an expert would tune it by hand for one network.

One thread, channels-last, batches by one gather from a padded array, pooling in the form whose gradient is fast, four
`foreach` calls for the update; and bfloat16 for all but the classifier on processors that are faster at it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from genepool.data import Dataset
from genepool.testing.bench.networks import Chain, ResNet20, channels_last


def tuned_step(network: nn.Module, data: Dataset, *, mixed: bool) -> Callable[[], None]:
    network = channels_last(network).train()
    features, head = _parts(network)
    batch = _batches(data)
    parameters: list[Tensor] = list(network.parameters())
    velocity = [torch.zeros_like(p) for p in parameters]
    decayed = [i for i, p in enumerate(parameters) if p.ndim > 1]

    def step() -> None:
        images, labels = batch()
        if mixed:
            with torch.autocast("cpu", torch.bfloat16):
                pooled = features(images).float()
        else:
            pooled = features(images)
        loss = functional.cross_entropy(head(pooled), labels)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_([gradients[i] for i in decayed], [parameters[i] for i in decayed], alpha=0.0001)
            torch._foreach_mul_(velocity, 0.9)
            torch._foreach_add_(velocity, gradients)
            torch._foreach_add_(parameters, velocity, alpha=-0.1)

    return step


def _parts(network: nn.Module) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    if isinstance(network, Chain):
        body = network.body
        return lambda x: _pool(body(x)), network.head
    assert isinstance(network, ResNet20)
    first, blocks, last = network.first, network.blocks, network.last
    return lambda x: _pool(functional.relu_(last(blocks(first(x))))), network.head


def _pool(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def _batches(data: Dataset) -> Callable[[], tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(0)
    pixels, count = data.train_pixels, len(data.train_labels)
    image, row, column, _ = pixels.strides
    windows = as_strided(pixels, (count, 9, 9, 32, 96), (image, row, column, row, 1), writeable=False)
    labels = np.asarray(data.train_labels)
    scale = torch.tensor(np.tile(1 / (255 * np.array(data.std)), 1024), dtype=torch.float32)
    shift = torch.tensor(np.tile(-np.array(data.mean) / np.array(data.std), 1024), dtype=torch.float32)
    drawn: tuple[NDArray[Any], ...] = ()
    place = count

    def batch() -> tuple[Tensor, Tensor]:
        nonlocal drawn, place
        if place + 50 > count:  # the next pass through the images, with other crops
            drawn = (rng.permutation(count), *rng.integers(0, 9, (2, count)), rng.random(count) < 0.5)
            place = 0
        order, top, left, flip = [one[place : place + 50] for one in drawn]
        place += 50
        crops = windows[order, top, left].reshape(50, 32, 32, 3)
        mirrored = np.flatnonzero(flip)
        crops[mirrored] = torch.from_numpy(crops[mirrored]).flip(2).numpy()
        flat = torch.from_numpy(crops.reshape(50, 3072)).float().mul_(scale).add_(shift)
        return flat.view(50, 32, 32, 3).permute(0, 3, 1, 2), torch.from_numpy(labels[order])

    return batch
