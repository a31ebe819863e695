"""How much of the budget one individual gets, and what the last part of it is for.

Differs from the paper throughout: there every individual takes the same number of steps, from the first to the last.
With minutes instead of days that is too many for the first networks, which are worthless, and too few for the last
ones, which are what the user takes home.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from genepool.evaluation import EVERYTHING_AS_SET, Plan, Race

SHORTEST = 0.25
"""Seconds; less time than this is not worth a training."""
TRIVIAL = 0.1
"""Of what others get."""
SAFETY, ENOUGH = 0.92, 15.0
"""Of the time that is left, or all but so many seconds: a last training that does not end in time is worth nothing."""
GRACE = 0.02
"""Of the budget: so long the finish waits for trainings that began before it, one of which may become the best."""

LONGER = 1.5
"""What the rest of a training is multiplied by, if it clearly wins its race and the budget has room."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Where an experiment stands in its budget."""

    used: float = 0.0
    total: float = 0.0
    """The whole budget; 0 where there is none."""
    unit: Literal["seconds", "flops"] = "seconds"
    """What both are counted in."""

    @property
    def spent(self) -> float:
        """The share of the budget that is spent, 0 to 1."""
        return min(1.0, self.used / self.total) if self.total else 0.0

    @property
    def left(self) -> float:
        return max(0.0, self.total - self.used)


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which trainings get their time; the defaults plan nothing."""

    share: float = 0.0
    """Of what is used so far, for each individual; 0: a fixed number of steps."""
    first: float = 0.02
    """Of the whole budget, at least."""
    most: int = 0
    """Steps of an individual, however many its share allows; 0: any number. Not in the finish."""
    finish: float = 0.0
    """The last part of the budget, for the best alone."""
    early_crop: float = 1.0
    cooling: float = 0.0
    racing: float = 0.0
    """The part of a training after which a child is compared with its parent; 0: never."""

    def is_finish(self, phase: Phase) -> bool:
        """Whether it is time to train the best, and nothing else."""
        return phase.spent > 1.0 - self.finish

    def is_eve(self, phase: Phase) -> bool:
        """Whether the finish has only just begun."""
        return phase.spent < 1.0 - self.finish + GRACE

    def plan(self, phase: Phase, *, trivial: bool = False, rival: float = 0.0) -> Plan:
        """For an individual that is born now; the trivial kind has next to nothing to learn.

        With a rival, the parent's accuracy, it may be a race; not in the finish, where nothing better can be done with
        the time.
        """
        plan = self._time(phase, trivial)
        if not self.racing or not rival or self.is_finish(phase):
            return plan
        room = self._room(plan, phase)
        return msgspec.structs.replace(plan, race=Race(look=self.racing, rival=rival, stretch=round(room, 4)))

    def _room(self, plan: Plan, phase: Phase) -> float:
        """How much longer the part after the look may get without outliving the budget."""
        rest = (1 - self.racing) * (plan.seconds or plan.flops)
        if not rest:
            return LONGER
        spare = (_usable(phase.left) if plan.seconds else phase.left) - (plan.seconds or plan.flops)
        return min(LONGER, 1.0 + max(0.0, spare) / rest)

    def _time(self, phase: Phase, trivial: bool) -> Plan:
        if not self.share or not phase.total:
            return EVERYTHING_AS_SET
        finish = self.is_finish(phase) and not trivial
        wanted = phase.left if finish else max(self.first * phase.total, self.share * phase.used)
        wanted *= TRIVIAL if trivial else 1.0
        if self.finish and not finish:  # or the finish would have to wait, or go without them
            wanted = min(wanted, phase.left - self.finish * phase.total)
        crop = self.early_crop if phase.spent < 0.5 else 1.0
        rest = Plan(most=0 if finish else self.most, crop=crop, heat=round(1.0 - self.cooling * phase.spent, 4))
        if phase.unit == "flops":
            return msgspec.structs.replace(rest, flops=min(wanted, phase.left))
        seconds = max(SHORTEST, min(wanted, _usable(phase.left)))
        return msgspec.structs.replace(rest, seconds=round(seconds, 3))


def _usable(left: float) -> float:
    return max(SAFETY * left, left - ENOUGH)
