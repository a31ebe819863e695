"""How much of the budget one individual gets, and what the last part of it is for.

Differs from the paper throughout: there every individual takes the same number of steps, from the first to the last.
With minutes instead of days that is too many for the first networks, which are worthless, and too few for the last
ones, which are what the user takes home.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from genepool.evaluation import EVERYTHING_AS_SET, Plan, Race
from genepool.evolution.budget import Phase
from genepool.evolution.final_phase import FinalPhase

SHORTEST = 0.25
"""Seconds; less time than this is not worth a training."""
TRIVIAL = 0.1
"""Of what others get."""
SAFETY, ENOUGH = 0.92, 15.0
"""Of the time that is left, or all but so many seconds: a last training that does not end in time is worth nothing."""
LONGER = 1.5
"""What the rest of a training is multiplied by, if it clearly wins its race and the budget has room."""


class TrainingBudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """How much training an individual gets; by default every individual gets the same number of steps."""

    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Differs from the paper if given: the time of an individual as a share of the time elapsed, instead of a fixed
    number of steps."""
    first_share: Annotated[float, Meta(ge=0, le=1)] = 0.02
    """With `share`: the least time of an individual, as a share of the whole budget."""
    early_crop: Annotated[float, Meta(ge=0.2, le=1)] = 1.0
    """Differs from the paper if it is not 1: side of the crops in the first half of the budget, as a share of the
    image's."""
    cooling: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Differs from the paper if it is not 0: the share by which learning rates have fallen when the budget is spent."""
    racing: Annotated[float, Meta(gt=0, le=0.95)] | None = None
    """Differs from the paper if given: the share of a child's training after which it is stopped if it clearly loses
    against its parent, and gets more time if it clearly wins."""

    def plan(self, phase: Phase, steps: int, final: FinalPhase, *, trivial: bool = False, rival: float = 0.0) -> Plan:
        """The training of an individual that is born now, with at most this many steps.

        Trivial networks have almost nothing to learn and get less. With a rival, the parent's accuracy, it may be a
        race; not in the final phase, when there is no better use of the time.
        """
        plan = self._time(phase, steps, final, trivial)
        if self.racing is None or not rival or final.has_begun(phase):
            return plan
        room = _room(self.racing, plan, phase)
        return msgspec.structs.replace(plan, race=Race(look=self.racing, rival=rival, stretch=round(room, 4)))

    def _time(self, phase: Phase, steps: int, final: FinalPhase, trivial: bool) -> Plan:
        if self.share is None or not phase.total:
            return EVERYTHING_AS_SET
        last = final.has_begun(phase) and not trivial
        wanted = phase.left if last else max(self.first_share * phase.total, self.share * phase.used)
        wanted *= TRIVIAL if trivial else 1.0
        if final.share and not last:  # otherwise the final phase would have to wait, or do without the result
            wanted = min(wanted, phase.left - final.share * phase.total)
        crop = self.early_crop if phase.spent < 0.5 else 1.0
        rest = Plan(most=0 if last else steps, crop=crop, heat=round(1.0 - self.cooling * phase.spent, 4))
        if phase.unit == "flops":
            return msgspec.structs.replace(rest, flops=min(wanted, phase.left))
        seconds = max(SHORTEST, min(wanted, _usable(phase.left)))
        return msgspec.structs.replace(rest, seconds=round(seconds, 3))


def _usable(left: float) -> float:
    return max(SAFETY * left, left - ENOUGH)


def _room(racing: float, plan: Plan, phase: Phase) -> float:
    """How much longer the part after the look may get without outliving the budget."""
    rest = (1 - racing) * (plan.seconds or plan.flops)
    if not rest:
        return LONGER
    spare = (_usable(phase.left) if plan.seconds else phase.left) - (plan.seconds or plan.flops)
    return min(LONGER, 1.0 + max(0.0, spare) / rest)
