"""Splits and orders that keep the classes in proportion. Pure functions; the random stream is an argument."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genepool.errors import DataError
from genepool.nn.sources.base import Images

TEST_SHARE = 0.1
"""Split off as the test part where a source comes without one."""
TEST_SEED = 2017
"""Fixed: the same images are held out in every experiment, whatever its own seed."""


def stratified_split(labels: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A mask over the labels: about that share of each class, at least one and never all of its images."""
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
    """How many of each class: the rounded share of all, given out by largest remainder, then kept inside 1..n-1."""
    quotas = counts * share
    taken = np.floor(quotas).astype(np.int64)
    missing = round(float(counts.sum()) * share) - int(taken.sum())
    taken[np.argsort(taken - quotas, kind="stable")[:missing]] += 1
    return np.clip(taken, np.minimum(counts, 1), np.maximum(counts - 1, 0))


def proportional_order(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random order in which every beginning holds the classes in about their proportion.

    So the first thousand images of a part are a fair sample of it, even where the files were sorted by class.
    """
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[members] = (np.argsort(rng.random(len(members))) + rng.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def held_out_mask(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which images are held out as the test part of a source that comes without one."""
    return stratified_split(labels, TEST_SHARE, np.random.default_rng(TEST_SEED))


def development_part(images: Images) -> Images:
    """The development images of a source that comes without a test part."""
    return images.take(~held_out_mask(images.labels))


def test_part(images: Images) -> Images:
    """The held-out images of a source that comes without a test part."""
    return images.take(held_out_mask(images.labels))
