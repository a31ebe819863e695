"""What every engine offers to whoever started it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

PATIENCE = 60.0
"""Seconds for workers to hand their trainings over when they are to stop."""


class Crew(Protocol):
    """The workers of one run."""

    @property
    def restarts(self) -> int:
        """How often one had to be started again."""
        ...

    def running(self) -> int:
        """How many are at work."""
        ...

    def work(self, look: Callable[[], None], every: float = 0.5) -> None:
        """Waits until all are done, starting again those that died, and looks around now and then."""
        ...

    def stop(self, patience: float = PATIENCE) -> None:
        """Asks all to stop, which lets them hand over what they train, and waits; then ends those that are left."""
        ...

    def end(self) -> None:
        """Ends all at once. Nothing that was finished is lost by it."""
        ...
