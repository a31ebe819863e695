"""How the learning rate goes within one training. A new way is one function and one registration. No torch.

This is the door for a training recipe of one's own: the loop, its checkpoints and its bit-for-bit resumption stay ours.
"""

from __future__ import annotations

from collections.abc import Callable

from genepool.registry import Registry

Schedule = Callable[[int, int], float]
"""(steps done, steps in all) -> a factor of the DNA's learning rate. A pure function: a training that is resumed asks
it again. Where the number of steps goes by time, it is 0 for the first few and may change later."""

SCHEDULES: Registry[Schedule] = Registry("schedule", "genepool.schedules")

WARM_UP = 20
"""Steps until a decaying learning rate is at its highest: inherited weights are not thrown out by the first ones."""


@SCHEDULES.register("constant")
def constant(done: int, steps: int) -> float:
    """The paper's."""
    return 1.0


@SCHEDULES.register("linear")
def linear(done: int, steps: int) -> float:
    """Differs from the paper: warms up and then falls to zero at the last step."""
    warm = min(1.0, (done + 1) / WARM_UP)
    return min(warm, (steps - done) / steps) if steps else warm
