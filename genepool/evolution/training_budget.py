"""How much of the experiment's budget the training of one individual gets.

Differs from the paper throughout: there every individual takes the same number of steps. In minutes instead of days
that is too many for the first networks, which are worthless, and too few for the last ones, which the user keeps.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from genepool.evaluation import AS_CONFIGURED, Race, TrainingBudget
from genepool.evolution.budget import BudgetUse
from genepool.evolution.departures import FinalPhase
from genepool.evolution.training import SHORTEST

TRIVIAL = 0.1  # budget of a trivial network, as a fraction of the usual one
SAFETY, ENOUGH = 0.92, 15.0
"""A last training that does not end in time is worth nothing, so it gets this fraction of the time that is left, or
all but this many seconds, whichever is longer."""
LONGER = 1.5  # factor for the rest of a training that clearly wins its race, if the budget has room


class TrainingBudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that give each training its budget; by default every training is as the settings say."""

    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Differs from the paper if given: an individual's time as a share of the time elapsed, not a number of steps."""
    first_share: Annotated[float, Meta(ge=0, le=1)] = 0.02
    """With `share`: the least time of an individual, as a share of the whole budget."""
    min_steps: Annotated[int, Meta(ge=1, le=10**6)] = 40
    """With `share`: the fewest steps of an individual, however slow they are."""
    early_crop: Annotated[float, Meta(ge=0.2, le=1)] = 1.0
    """Differs from the paper if it is not 1: side of crops in the budget's first half, as a share of the image's."""
    cooling: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Differs from the paper if it is not 0: the share by which learning rates have fallen when the budget is spent."""
    racing: Annotated[float, Meta(gt=0, le=0.95)] | None = None
    """Differs from the paper if given: the share of a child's training after which it is stopped if it clearly loses
    against its parent, and gets more time if it clearly wins."""

    def budget(
        self,
        use: BudgetUse,
        *,
        final_phase: FinalPhase = FinalPhase(),  # noqa: B008 - a frozen value
        max_steps: int = 0,
        trivial: bool = False,
        rival: float = 0.0,
    ) -> TrainingBudget:
        """Return the budget of an individual that is born now; a trivial network has almost nothing to learn.
        `max_steps` does not hold in the final phase. If `rival`, the parent's accuracy, is given, the training may be a
        race; not in the final phase, when there is no better use for the time."""
        budget = self._time(use, final_phase, max_steps, trivial)
        if self.racing is None or not rival or final_phase.has_begun(use):
            return budget
        stretch = round(_stretch(self.racing, budget, use), 4)
        return replace(budget, race=Race(look=self.racing, rival=rival, stretch=stretch))

    def _time(self, use: BudgetUse, final_phase: FinalPhase, max_steps: int, trivial: bool) -> TrainingBudget:
        if self.share is None or not use.total:
            return AS_CONFIGURED
        final = final_phase.has_begun(use) and not trivial
        wanted = use.left if final else max(self.first_share * use.total, self.share * use.used)
        wanted *= TRIVIAL if trivial else 1.0
        if final_phase.share and not final:  # otherwise the final phase would have to wait for it or ignore it
            wanted = min(wanted, use.left - final_phase.share * use.total)
        budget = TrainingBudget(
            max_steps=0 if final else max_steps,
            min_steps=self.min_steps,
            crop=self.early_crop if use.fraction < 0.5 else 1.0,
            learning_rate_factor=round(1.0 - self.cooling * use.fraction, 4),
        )
        if use.unit == "flops":
            return replace(budget, flops=min(wanted, use.left))
        return replace(budget, seconds=round(max(SHORTEST, min(wanted, _usable(use.left))), 3))


def _usable(left: float) -> float:
    return max(SAFETY * left, left - ENOUGH)


def _stretch(racing: float, budget: TrainingBudget, use: BudgetUse) -> float:
    rest = (1 - racing) * (budget.seconds or budget.flops)
    if not rest:
        return LONGER
    spare = (_usable(use.left) if budget.seconds else use.left) - (budget.seconds or budget.flops)
    return min(LONGER, 1.0 + max(0.0, spare) / rest)
