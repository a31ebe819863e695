"""The final phase: the last part of the budget, in which only the best network is trained further.

Differs from the paper, where every individual is trained alike until the end.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from genepool.evolution.budget import Phase

GRACE = 0.02
"""Share of the budget during which the final phase waits for earlier trainings, one of which may become the best."""


class FinalPhase(msgspec.Struct, frozen=True, kw_only=True):
    """When the final phase begins."""

    share: Annotated[float, Meta(ge=0, le=0.9)] = 0.0
    """Differs from the paper if it is not 0: the last share of the budget, in which only the best trains on."""

    def has_begun(self, phase: Phase) -> bool:
        """Whether only the best is trained now."""
        return phase.spent > 1.0 - self.share

    def is_waiting(self, phase: Phase) -> bool:
        """Whether the final phase has only just begun, so that earlier trainings may still end."""
        return phase.spent < 1.0 - self.share + GRACE
