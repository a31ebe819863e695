"""When a worker stops: a signal, the end of the budget, or the loss of its parent process.

What an experiment has spent, read off its records.

When a worker stops.
"""

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


class Accounts:
    """What an experiment has spent, together with the time of a run that goes on."""

    def __init__(self, experiment: Experiment, every: float = 0.0) -> None:
        """Looks at the records again at most so often, in seconds."""
        self._ledger = Ledger(experiment.view())
        self._every, self._next_look = every, 0.0

    def __call__(self, also: Interval) -> Spending:
        if time.monotonic() >= self._next_look:
            self._ledger.refresh()
            self._next_look = time.monotonic() + self._every
        return self._ledger.spending(also)


class StopCondition:
    """Why a worker should stop: a signal, the end of the budget, or that whoever started it is gone."""

    CHEAP = 0.02
    """Seconds; a look at what was spent that takes longer is not taken at every step."""
    LOOKS = 8
    """So many looks in a row must take longer: a busy machine makes some of them wait, and a budget of individuals, by
    which experiments repeat themselves, must end where it ends on a quiet one."""

    def __init__(
        self,
        experiment: Experiment,
        parent: int | None = None,
        *,
        spent: Callable[[Interval], Spending] | None = None,
        every: float = 0.0,
    ) -> None:
        """What was spent is read off the records, unless somebody else keeps the ledger, asked at most so often."""
        self._experiment, self._parent = experiment, parent
        self._spent = spent or Accounts(experiment)
        self._every = every
        self._stopwatch = Stopwatch()
        self._next_look = 0.0
        self._took: deque[float] = deque([0.0] * self.LOOKS, maxlen=self.LOOKS)
        self._signalled: str | None = None
        self._over: str | None = None
        self._last = (time.monotonic(), Budget(), Spending())

    def obey_signals(self) -> None:
        """SIGTERM and SIGINT ask the worker to stop; it hands over what it trains."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)

    def _told(self, number: int, frame: FrameType | None) -> None:
        self._signalled = f"it was told to by {signal.Signals(number).name}"

    @property
    def told(self) -> bool:
        """Whether somebody wants it to stop, though there may be more to do."""
        return self._signalled is not None

    def __call__(self) -> str | None:
        if self._signalled is None and self._parent is not None and os.getppid() != self._parent:
            self._signalled = "the program that started it is gone"
        now = time.monotonic()
        if self._over is None and now >= self._next_look:
            self._over = self._look()
            self._took.append(time.monotonic() - now)
            took = min(self._took)
            self._next_look = time.monotonic() + max(self._every, 0.0 if took < self.CHEAP else 20 * took)
        return self._signalled or self._over

    def _look(self) -> str | None:
        try:
            settings = self._experiment.settings()
            budget = settings.budget
            if not (budget.limits_anything or settings.escape.matters):
                return None
            spent = self._spent(self._stopwatch.interval())
        except StorageError:  # what was spent is not known just now, which is no reason to stop
            return None
        self._last = (time.monotonic(), budget, spent)
        return budget.over(spent)

    def budget_use(self) -> BudgetUse:
        """Return the use of the budget, from the latest look at what was spent."""
        looked, budget, spent = self._last
        elapsed = spent.seconds + time.monotonic() - looked
        return budget.use(msgspec.structs.replace(spent, seconds=elapsed))

    def spent(self) -> Spending:
        """What has been used and reached, as far as is known."""
        self()
        return self._last[2]
