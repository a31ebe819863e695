"""What evolution strives for: the fitness that selection goes by, from what was measured of a network.

By default fitness is accuracy, as in the paper. Fitness is then 0 to 1, and 0 where nothing could be trained.
"""

from __future__ import annotations

from typing import Literal

import msgspec

WORST = -1.0


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """How accuracy and cost become one number."""

    kind: Literal["accuracy", "accuracy-per-flops"] = "accuracy"
    flops_weight: float = 0.07
    flops_target: float = 1e6
    """Of one image; those below cost nothing."""
    max_milliseconds: float = 0.0
    """Of the inference of one image; 0: any time, and none is measured."""

    def fitness(self, accuracy: float, flops: int, milliseconds: float | None = None) -> float:
        """Of a trained network, with the FLOPs of one image.

        Differs from the paper where it is not accuracy alone. A network that takes longer than the limit lives, but
        below zero, where none is that keeps it; the nearer to the limit, the better, so that evolution finds back.
        """
        value = self._value(accuracy, flops)
        if self.max_milliseconds and milliseconds is not None and milliseconds > self.max_milliseconds:
            return value * self.max_milliseconds / milliseconds + WORST
        return value

    def _value(self, accuracy: float, flops: int) -> float:
        """Accuracy times (FLOPs over the target) to the power of minus the weight, where they are over it; 0 to 1.

        A product, as in MnasNet (Tan et al., 2019): ten times the FLOPs cost the same share of the accuracy, wherever
        they are added, and no trained network falls below one that could not be trained. What is below the target is
        free, since evolution begins with next to no FLOPs: a first convolution, a hundred times dearer and not yet
        trained, would lose against the trivial network.
        """
        if self.kind == "accuracy":
            return accuracy
        return accuracy * float(max(1.0, flops / self.flops_target) ** -self.flops_weight)

    @property
    def untrained(self) -> float:
        """Of a network that could not be trained: the lowest there is."""
        return WORST if self.max_milliseconds else 0.0
