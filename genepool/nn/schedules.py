"""Learning-rate schedules within one training. A new one is a function and a registration. No torch."""

from __future__ import annotations

from collections.abc import Callable

from genepool.registry import Registry

Schedule = Callable[[int, int], float]
"""(steps done, steps in total) -> a factor for the DNA's learning rate. It must be a pure function, because a resumed
training calls it again. If time limits the steps, the total is 0 at first and may change later."""

SCHEDULES: Registry[Schedule] = Registry("schedule", "genepool.schedules")

WARM_UP = 20
"""Steps until a decaying learning rate reaches its maximum, so that the first ones do not destroy inherited weights."""


@SCHEDULES.register("constant")
def constant(done: int, steps: int) -> float:
    """The paper's schedule."""
    return 1.0


@SCHEDULES.register("linear")
def linear(done: int, steps: int) -> float:
    """Differs from the paper: warm up, then fall to zero at the last step."""
    warm = min(1.0, (done + 1) / WARM_UP)
    return min(warm, (steps - done) / steps) if steps else warm
