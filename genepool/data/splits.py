"""Splits that keep the proportions of the classes, and the mean and standard deviation of each channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genepool.data.free_memory import at_a_time
from genepool.data.source import Images
from genepool.errors import DataError

TEST_SHARE = 0.1  # fraction split off as the test part of a source without one
TEST_SEED = 2017  # fixed, so that every experiment holds out the same images


def stratified_split(labels: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask with about that share of each class: at least one image and never all of them."""
    counts = np.bincount(labels)
    if (counts[counts > 0] < 2).any():
        raise DataError("A class with one image cannot be split; add images to it or leave it out.")
    taken = _apportion(counts, share)
    mask = np.zeros(len(labels), dtype=np.bool_)
    keys = rng.random(len(labels))
    for label in np.flatnonzero(counts):
        members = np.flatnonzero(labels == label)
        mask[members[np.argsort(keys[members], kind="stable")[: taken[label]]]] = True
    return mask


def _apportion(counts: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Return the number per class: the rounded share, distributed by largest remainder and limited to 1..n-1."""
    quotas = counts * share
    taken = np.floor(quotas).astype(np.int64)
    missing = round(float(counts.sum()) * share) - int(taken.sum())
    taken[np.argsort(taken - quotas, kind="stable")[:missing]] += 1
    return np.clip(taken, np.minimum(counts, 1), np.maximum(counts - 1, 0))


def proportional_order(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random order in which every prefix is a fair sample, even if the files are sorted by class."""
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[members] = (np.argsort(rng.random(len(members))) + rng.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def held_out_mask(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the test images of a source without a test part."""
    return stratified_split(labels, TEST_SHARE, np.random.default_rng(TEST_SEED))


SMALLEST_STD = 1 / 255  # a constant channel must not be divided by zero


def channel_moments(images: Images, rows: NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel over those images, on the scale 0..1."""
    counts = _histogram(images, rows)
    values = np.arange(256) / 255
    total = counts.sum(axis=1)
    mean = counts @ values / total
    std = np.sqrt((counts * (values - mean[:, np.newaxis]) ** 2).sum(axis=1) / total)
    return tuple(mean.tolist()), tuple(np.maximum(std, SMALLEST_STD).tolist())


def _histogram(images: Images, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    _, height, width, channels = images.pixels.shape
    step = at_a_time(height * width * channels)
    counts = np.zeros((channels, 256), dtype=np.int64)
    for start in range(0, len(rows), step):
        part = images.pixels[rows[start : start + step]]
        for channel in range(channels):
            counts[channel] += np.bincount(part[..., channel].ravel(), minlength=256)
    return counts
