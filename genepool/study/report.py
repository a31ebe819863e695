"""The table of a study: each arm's accuracy, how sure that is, and what it cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from genepool.study.outcome import Outcome


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One arm: means over its repeats."""

    arm: str
    repeats: int
    validation: float
    test: float
    spread: float | None
    """Twice the standard error of the mean test accuracy; None for a single repeat."""
    individuals: float
    flops: float
    parameters: float
    useful: float


def lines(outcomes: Sequence[Outcome]) -> list[Line]:
    """The arms in the order in which they first appear."""
    arms = dict.fromkeys(outcome.arm for outcome in outcomes)
    return [_line(arm, [outcome for outcome in outcomes if outcome.arm == arm]) for arm in arms]


def _line(arm: str, outcomes: list[Outcome]) -> Line:
    tests = [outcome.test_accuracy for outcome in outcomes]
    mean = statistics.fmean
    return Line(
        arm=arm,
        repeats=len(outcomes),
        validation=mean(outcome.best.validation_accuracy for outcome in outcomes),
        test=mean(tests),
        spread=2 * statistics.stdev(tests) / len(tests) ** 0.5 if len(tests) > 1 else None,
        individuals=mean(outcome.best.individuals for outcome in outcomes),
        flops=mean(outcome.best.flops for outcome in outcomes),
        parameters=mean(outcome.best.parameters for outcome in outcomes),
        useful=mean(outcome.useful for outcome in outcomes),
    )
