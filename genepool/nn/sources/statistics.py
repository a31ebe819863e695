"""The mean and spread of each channel, by which training normalises images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genepool.nn.sources.base import Images
from genepool.nn.sources.room import at_a_time

SMALLEST_STD = 1 / 255
"""A channel that never changes must not be divided by zero."""


def channel_moments(images: Images, rows: NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over those images, on the scale 0..1."""
    counts = _histogram(images, rows)
    values = np.arange(256) / 255
    total = counts.sum(axis=1)
    mean = counts @ values / total
    std = np.sqrt((counts * (values - mean[:, np.newaxis]) ** 2).sum(axis=1) / total)
    return tuple(mean.tolist()), tuple(np.maximum(std, SMALLEST_STD).tolist())


def _histogram(images: Images, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """(channels, 256): how often each value occurs; exact, whatever the number of images."""
    _, height, width, channels = images.pixels.shape
    step = at_a_time(height * width * channels)
    counts = np.zeros((channels, 256), dtype=np.int64)
    for start in range(0, len(rows), step):
        part = images.pixels[rows[start : start + step]]
        for channel in range(channels):
            counts[channel] += np.bincount(part[..., channel].ravel(), minlength=256)
    return counts
