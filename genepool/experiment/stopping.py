"""What an experiment has spent, and when a worker stops: a signal, the end of the budget, the loss of its parent."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from genepool.analysis import Interval, Ledger, Stopwatch
from genepool.errors import StorageError
from genepool.evolution import Budget, BudgetUse, Spending

if TYPE_CHECKING:
    from genepool.experiment.experiment import Experiment

SpentBy = Callable[[Interval], Spending]  # what an experiment has spent, including a run in progress


class Accounts:
    """What an experiment has spent, including a run that has not ended; read at most once in `every` seconds."""

    def __init__(self, experiment: Experiment, every: float = 0.0) -> None:
        self._ledger = Ledger(experiment.view())
        self._every, self._next_look = every, 0.0

    def __call__(self, also: Interval) -> Spending:
        if time.monotonic() >= self._next_look:
            self._ledger.refresh()
            self._next_look = time.monotonic() + self._every
        return self._ledger.spending(also)


class StopCondition:
    """Why a worker should stop: a signal, the end of the budget, or the end of the process that started it."""

    CHEAP = 0.02
    """Seconds; reading what was spent is not done at every step if it takes longer."""
    LOOKS = 8
    """Only if this many reads in a row take longer: load makes some of them wait, and a budget of individuals must end
    at the same individual on a busy machine as on a quiet one, or runs would not repeat."""

    def __init__(
        self, experiment: Experiment, parent: int | None = None, *, spent: SpentBy | None = None, every: float = 0.0
    ) -> None:
        """What was spent comes from the records, or from `spent`, which is called at most once in `every` seconds."""
        self._experiment, self._parent = experiment, parent
        self._spent, self._every = spent or Accounts(experiment), every
        self._stopwatch, self._next_look = Stopwatch(), 0.0
        self._took: deque[float] = deque([0.0] * self.LOOKS, maxlen=self.LOOKS)
        self._requested: str | None = None
        self._over: str | None = None
        self._last = (time.monotonic(), Budget(), Spending())

    def obey_signals(self) -> None:
        """Stop on SIGTERM and SIGINT, handing over the current training."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._requested = f"it received {signal.Signals(number).name}"

    @property
    def stop_requested(self) -> bool:
        """Whether the worker was stopped from outside, so that there may be more to do."""
        return self._requested is not None

    def __call__(self) -> str | None:
        if self._requested is None and self._parent is not None and os.getppid() != self._parent:
            self._requested = "the program that started it is gone"
        now = time.monotonic()
        if self._over is None and now >= self._next_look:
            self._over = self._look()
            self._took.append(time.monotonic() - now)
            took = min(self._took)
            self._next_look = time.monotonic() + max(self._every, 0.0 if took < self.CHEAP else 20 * took)
        return self._requested or self._over

    def _look(self) -> str | None:
        try:
            settings = self._experiment.settings()
            if not (settings.budget.limits_anything or settings.escape.depends_on_spending):
                return None
            spent = self._spent(self._stopwatch.interval())
        except StorageError:  # not knowing what was spent is no reason to stop
            return None
        self._last = (time.monotonic(), settings.budget, spent)
        return settings.budget.over(spent)

    def budget_use(self) -> BudgetUse:
        looked, budget, spent = self._last
        return budget.use(msgspec.structs.replace(spent, seconds=spent.seconds + time.monotonic() - looked))

    def spent(self) -> Spending:
        self()
        return self._last[2]
