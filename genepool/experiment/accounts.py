"""What an experiment has spent, read off its records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from genepool.analysis import Interval, Ledger, spending
from genepool.evolution import Spending

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
        return spending(self._ledger.entries.values(), also=also)
