"""How many steps a training takes, and the race against the parent that may change the number.

If time limits the steps, their number follows the clock until the end, since the speed of a machine varies: other
programs may take its cores at any moment. Every decision is recorded (steps done, steps in total): a training with the
same decisions repeats bit for bit.

Differs from the paper, where every training runs to its end: a race measures a child once, on some of the validation
images. A clear loser stops, a clear winner trains longer. Errors are compared by their ratio, because a child is
further from its end than its parent was, and by how much depends on how hard the images are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from genepool.evaluation import Race, TrainingBudget, Verdict

FIRST = (4, 20)
"""The first decision is timed between these steps unless they are slow: the very first steps also prepare what the
others use."""
EVERY, SHARE = 1.0, 0.02
"""Seconds between two later decisions, and the least share of the time: there are at most 50 decisions to record."""
TOLERANCE = 0.03  # the number of steps is not changed if the rest is off by no more than this fraction


class StepCount:
    def __init__(self, budget: TrainingBudget, steps: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_time = budget.seconds > 0 and not budget.step_decisions
        self.steps = 0 if budget.seconds else steps
        """Steps in total; 0 until it is decided."""
        self.decisions: list[tuple[int, int]] = []
        self._given = dict(budget.step_decisions)
        self.seconds, self._clock = budget.seconds, clock
        """Time for all steps, if time limits them."""
        self._min_steps, self._max_steps = budget.min_steps, budget.max_steps or sys.maxsize
        self._began = clock()
        self._last = (0, self._began)

    @property
    def is_decided(self) -> bool:
        return self.steps > 0 or not (self.by_time or self._given)

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    def resume(self, decisions: list[tuple[int, int]], steps: int, elapsed: float) -> None:
        self.decisions, self.steps = decisions, steps
        self._began = self._clock() - elapsed
        self._last = (-1, 0.0)

    def after(self, done: int) -> None:
        """Update after every step."""
        if done in self._given:
            self._decide(done, self._given[done])
        elif self.by_time and not done >= self.steps > 0:
            now = self._clock()
            if now - self._began >= self.seconds and done >= self._min_steps:
                self.stop(done)
            elif done in FIRST or now - self._last[1] >= max(EVERY, SHARE * self.seconds):
                self._decide_by_time(done, now)

    def pause(self, seconds: float) -> None:
        """Account for time spent on something else: it is used up, but says nothing about the duration of steps."""
        step, then = self._last
        self._last = (step, then + seconds)

    def stop(self, done: int) -> None:
        """Take no further steps."""
        self._decide(done, done)

    def stretch(self, done: int, factor: float) -> None:
        """Multiply the remaining steps and the remaining time."""
        self.seconds += max(0.0, self.seconds - self.elapsed) * (factor - 1)
        self._decide(done, done + round((self.steps - done) * factor))

    def _decide_by_time(self, done: int, now: float) -> None:
        before, then = self._last
        self._last = (done, now)
        if before <= 0:  # nothing is measured yet
            return
        each = (now - then) / (done - before)
        steps = max(self._min_steps, done + max(0, int((self.seconds - (now - self._began)) / each)))
        steps = min(steps, max(self._max_steps, self.steps, done))  # a race may have given it more
        if abs(steps - self.steps) > TOLERANCE * (self.steps - done):
            self._decide(done, steps)

    def _decide(self, done: int, steps: int) -> None:
        self.steps = steps
        self.decisions.append((done, steps))


RACE_IMAGES = 500  # validation images for a race: mostly less than 1 % of the FLOPs of a training
LOSING = 1.4
"""A child with more than this many times its parent's errors loses. Measured with `laptop`, half-way: of 54 children
that ended at least as good as their parent, all but one had less than 1.3 times its errors; of 44 others, the 12
hopeless ones had at least 1.49 times its errors."""
WINNING = 0.95
"""A child with less than this many times its parent's errors wins: none of these ended worse than its parent."""
_VERDICTS: tuple[Verdict | None, ...] = (None, "stopped", "longer", "kept")


def judge(accuracy: float, rival: float) -> Verdict:
    """Return the verdict on a child that has this accuracy during its training."""
    error, known = 1 - accuracy, 1 - rival
    if error > LOSING * known:
        return "stopped"
    return "longer" if error < WINNING * known else "kept"


class RaceRun:
    """Runs the race of one training; `measure` returns the current accuracy of the network."""

    def __init__(self, race: Race | None, step_count: StepCount, measure: Callable[[], float]) -> None:
        self._race, self._step_count, self._measure = race, step_count, measure
        self.verdict = race.verdict if race is not None else None
        self.look: tuple[int, float] | None = None

    def after(self, done: int) -> None:
        """Update after every step."""
        race, steps = self._race, self._step_count.steps
        if race is None or self.verdict is not None or not race.look * steps <= done < steps:
            return
        began = self._step_count.elapsed
        self.look = (done, self._measure())
        self._step_count.pause(self._step_count.elapsed - began)
        self.verdict = judge(self.look[1], race.rival)
        if self.verdict == "stopped":
            self._step_count.stop(done)
        elif self.verdict == "longer" and race.stretch > 1:
            self._step_count.stretch(done, race.stretch)

    def state(self) -> dict[str, Tensor]:
        if self._race is None:
            return {}
        figures = [_VERDICTS.index(self.verdict), *(self.look or (0, 0.0)), self._step_count.seconds]
        return {"race": torch.tensor(figures, dtype=torch.float64)}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        if self._race is None:
            return
        verdict, step, accuracy, self._step_count.seconds = tensors["race"].tolist()
        self.verdict = _VERDICTS[int(verdict)]
        self.look = (int(step), accuracy) if step else None
