"""How many steps a training takes, and the race against the parent that may change it.

How many steps a training takes: a number that is given, or as many as there is time for; a race may change both.

Time is looked at every few steps, since a machine is not as fast at one moment as at another, and the number is decided
anew if it no longer fits. Each decision is recorded as a turn (steps done, steps in all): with the same turns, which a
plan may hold, a training repeats bit for bit.

One look at a child on its way: who clearly loses against its parent stops, who clearly wins goes on for longer.

Differs from the paper, where everybody trains to the end. Nobody waits for anybody: all that is compared is the child,
on some of the validation images, with the fitness that its parent had when the child was born.

What is compared are errors, by their ratio: a child is further from its own end than its parent was, and by how much
depends on how hard the images are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from genepool.evaluation import Race, TrainingBudget, Verdict

FIRST = (4, 20)
"""The steps between which the first decision is timed: the very first ones also prepare what others use."""
EVERY = 50
"""Steps between two later decisions."""
TOLERANCE = 0.03
"""A number of steps that is no further off than this share stays."""
FEWEST = 40
"""Steps, however slow they are: with fewer a network would not be trained at all."""


class StepCount:
    """The number of steps of one training."""

    def __init__(self, budget: TrainingBudget, steps: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_time = budget.seconds > 0 and not budget.step_decisions
        self.steps = 0 if budget.seconds else steps
        """In all; 0 as long as it is not decided."""
        self.decisions: list[tuple[int, int]] = []
        self._given = dict(budget.step_decisions)
        self.seconds, self._clock = budget.seconds, clock
        """Time for all steps, where they go by time."""
        self._most = budget.max_steps or sys.maxsize
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

    def resume(self, decisions: list[tuple[int, int]], steps: int, elapsed: float) -> None:
        """Goes back to where a checkpoint was made."""
        self.decisions, self.steps = decisions, steps
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
        self.decisions.append((done, steps))


IMAGES = 500
"""Validation images for a look: less than one in a hundred of a training's operations, in most."""
LOSING = 1.4
"""Times the parent's errors. Measured with `laptop`, half-way: of 54 that ended at least as good as their parent all
but one had less than 1.3 times its errors then; of 44 that did not, the 12 hopeless ones had 1.49 times and more."""
WINNING = 0.95
"""Times the parent's errors: nobody who was below it half-way ended worse than its parent."""
_VERDICTS: tuple[Verdict | None, ...] = (None, "stopped", "longer", "kept")


def judge(accuracy: float, rival: float) -> Verdict:
    """What is to become of a child that has this accuracy at the look."""
    error, known = 1 - accuracy, 1 - rival
    if error > LOSING * known:
        return "stopped"
    return "longer" if error < WINNING * known else "kept"


class Referee:
    """Watches the steps of one training; `measure` tells the network's accuracy as it is at that moment."""

    def __init__(self, race: Race | None, step_count: StepCount, measure: Callable[[], float]) -> None:
        self._race, self._pace, self._measure = race, step_count, measure
        self.verdict = race.verdict if race is not None else None
        self.look: tuple[int, float] | None = None

    def after(self, done: int) -> None:
        """To be told of every step."""
        race, steps = self._race, self._pace.steps
        if race is None or self.verdict is not None or not race.look * steps <= done < steps:
            return
        began = self._pace.elapsed
        self.look = (done, self._measure())
        self._pace.pause(self._pace.elapsed - began)
        self.verdict = judge(self.look[1], race.rival)
        if self.verdict == "stopped":
            self._pace.stop(done)
        elif self.verdict == "longer" and race.stretch > 1:
            self._pace.stretch(done, race.stretch)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint has to keep."""
        if self._race is None:
            return {}
        figures = [_VERDICTS.index(self.verdict), *(self.look or (0, 0.0)), self._pace.seconds]
        return {"race": torch.tensor(figures, dtype=torch.float64)}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Goes back to where a checkpoint was made."""
        if self._race is None:
            return
        verdict, step, accuracy, self._pace.seconds = tensors["race"].tolist()
        self.verdict = _VERDICTS[int(verdict)]
        self.look = (int(step), accuracy) if step else None
