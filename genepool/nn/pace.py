"""How many steps a training takes: a number that is given, or as many as there is time for; a race may change both.

Time is looked at every few steps, since a machine is not as fast at one moment as at another, and the number is decided
anew if it no longer fits. Each decision is recorded as a turn (steps done, steps in all): with the same turns, which a
plan may hold, a training repeats bit for bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from genepool.evaluation import Plan

FIRST = (4, 20)
"""The steps between which the first decision is timed: the very first ones also prepare what others use."""
EVERY = 50
"""Steps between two later decisions."""
TOLERANCE = 0.03
"""A number of steps that is no further off than this share stays."""
FEWEST = 40
"""Steps, however slow they are: with fewer a network would not be trained at all."""


class Pace:
    """The number of steps of one training."""

    def __init__(self, plan: Plan, steps: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_time = plan.seconds > 0 and not plan.turns
        self.steps = 0 if plan.seconds else steps
        """In all; 0 as long as it is not decided."""
        self.turns: list[tuple[int, int]] = []
        self._given = dict(plan.turns)
        self.seconds, self._clock = plan.seconds, clock
        """Time for all steps, where they go by time."""
        self._most = plan.most or sys.maxsize
        self._began = clock()
        self._last = (0, self._began)

    @property
    def is_decided(self) -> bool:
        """Whether it is known how many steps there are."""
        return self.steps > 0 or not (self.by_time or self._given)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    def resume(self, turns: list[tuple[int, int]], steps: int, elapsed: float) -> None:
        """Goes back to where a checkpoint was made."""
        self.turns, self.steps = turns, steps
        self._began = self._clock() - elapsed
        self._last = (-1, 0.0)

    def after(self, done: int) -> None:
        """To be told of every step."""
        if done in self._given:
            self._decide(done, self._given[done])
        elif self.by_time and (done % EVERY == 0 or done in FIRST):
            self._look(done)

    def pause(self, seconds: float) -> None:
        """So long something else was done: it counts as time, but does not tell how long steps take."""
        step, then = self._last
        self._last = (step, then + seconds)

    def stop(self, done: int) -> None:
        """No further steps."""
        self._decide(done, done)

    def stretch(self, done: int, factor: float) -> None:
        """So many times the steps that are left, and the time."""
        self.seconds += max(0.0, self.seconds - self.elapsed) * (factor - 1)
        self._decide(done, done + round((self.steps - done) * factor))

    def _look(self, done: int) -> None:
        now, (before, then) = self._clock(), self._last
        self._last = (done, now)
        if done == FIRST[0] or before < 0:  # nothing is measured yet
            return
        each = (now - then) / (done - before)
        steps = max(FEWEST, done + max(0, int((self.seconds - (now - self._began)) / each)))
        steps = min(steps, max(self._most, self.steps, done))  # a race may have given it more
        if abs(steps - self.steps) > TOLERANCE * self.steps:
            self._decide(done, steps)

    def _decide(self, done: int, steps: int) -> None:
        self.steps = steps
        self.turns.append((done, steps))
