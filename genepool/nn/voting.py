"""How several networks answer together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Answers = NDArray[np.float32]
"""Probabilities (networks, images, classes)."""


def majority(answers: Answers) -> NDArray[np.int64]:
    """The class that most networks name; of several with equally many votes, the one of highest mean probability."""
    votes = answers.argmax(2)
    classes = np.arange(answers.shape[2])
    counts = (votes[:, :, None] == classes).sum(0)
    ahead = counts == counts.max(1, keepdims=True)
    chosen: NDArray[np.int64] = np.where(ahead, answers.mean(0), -1.0).argmax(1)
    return chosen


def average(answers: Answers) -> NDArray[np.int64]:
    """The class of highest mean probability."""
    chosen: NDArray[np.int64] = answers.mean(0).argmax(1)
    return chosen


def share_right(chosen: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """The accuracy of these answers."""
    return float((chosen == labels).mean())
