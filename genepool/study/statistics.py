"""What is computed from the outcomes of a study.

Follows the paper's "Reporting Methodology": the best experiment is the one of highest validation accuracy, its test
accuracy is reported, and the plan names the statistics before anything runs.
"""

import math
import statistics
from collections.abc import Callable, Sequence

import msgspec

from genepool.study.outcome import PERCENTS, Outcome

Finding = tuple[str, str]  # the name of a figure, and its value as text
NONE_BORN = "No individual was born after the last change."


def mean(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Mean and standard deviation of the test accuracy, arm by arm; and the best by validation."""
    found = []
    for arm, group in by_arm(outcomes).items():
        tests = [100 * outcome.test_accuracy for outcome in group]
        spread = f", s.d. {statistics.stdev(tests):.2f}" if len(tests) > 1 else ""
        best = max(group, key=lambda outcome: outcome.validation)
        own = f"mean {statistics.fmean(tests):.2f} %{spread}, n = {len(tests)}"
        chosen = f"best by validation: {100 * best.test_accuracy:.2f} % (seed {best.seed})"
        found.append((f"test accuracy, {arm}", f"{own}; {chosen}"))
    return found


def validation_and_test(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Pearson's correlation of validation and test accuracy, arm by arm."""
    found = []
    for arm, group in by_arm(outcomes).items():
        value = correlation([(outcome.validation, outcome.test_accuracy) for outcome in group])
        text = f"too few repeats that differ (n = {len(group)})" if value is None else f"{value:.3f} (n = {len(group)})"
        found.append((f"correlation of validation and test accuracy, {arm}", text))
    return found


def after_changes(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Sign test: is the best individual born after the last change better than the best before the first, in more than
    half of the experiments? Experiments without changes are split where those of the same seed changed."""
    if not any(outcome.changes for outcome in outcomes):
        return [("sign test", "nothing changed in any experiment")]
    found = []
    for arm, group in by_arm(outcomes).items():
        if any(outcome.planned or outcome.changes for outcome in group):
            found.append((f"sign test, {arm}", _around_changes(group)))
        elif text := _around_same_moments(group, outcomes):
            found.append((f"sign test, {arm}", text))
    return found


def _around_changes(group: Sequence[Outcome]) -> str:
    complete = [outcome for outcome in group if outcome.changes and len(outcome.changes) >= outcome.planned]
    pairs = [outcome.around_changes for outcome in complete if outcome.around_changes is not None]
    missing = len(group) - len(complete)
    late = f" In {missing} of {len(group)} the budget was spent before the last change was due." if missing else ""
    if not any(after is not None for _, after in pairs):
        return late.strip() or NONE_BORN
    changes = [change for outcome in complete for change in outcome.changes]
    plateaus = sum(change.why == "plateau" for change in changes)
    return (
        f"the best born after the last change against the best before the first: {_compared(pairs)} "
        f"{plateaus} of {len(changes)} changes were made at a plateau, the others at their share of the budget.{late}"
    )


def _around_same_moments(group: Sequence[Outcome], outcomes: Sequence[Outcome]) -> str:
    """The same for an arm without changes; empty if no experiment of the same seed changed."""
    pairs, moments = [], []
    for outcome in group:
        others = [each.changes for each in outcomes if each.seed == outcome.seed and each.changes]
        if others and outcome.splits:
            first, last = (statistics.fmean(each[i].finished_share for each in others) for i in (0, -1))
            pairs.append((outcome.splits[_percent(first)][0], outcome.splits[_percent(last)][1]))
            moments += [(each[0].share, each[-1].share) for each in others]
    if not pairs:
        return ""
    begin, end = (100 * statistics.fmean(column) for column in zip(*moments, strict=True))
    return (
        f"nothing changed; the best born after {end:.0f} % of the budget against the best before {begin:.0f} %, where "
        f"the experiments of the same seed changed: {_compared(pairs)}"
    )


def _percent(share: float) -> int:
    return min(PERCENTS, round(PERCENTS * share))


def _compared(pairs: Sequence[tuple[float, float | None]]) -> str:
    """The sign test of pairs of before and after."""
    known = [(before, after) for before, after in pairs if after is not None]
    better, worse = sum(a > b for b, a in known), sum(a < b for b, a in known)
    equal, missing = len(known) - better - worse, len(pairs) - len(known)
    gone = f", {missing} without anyone born after it" if missing else ""
    return f"{better} better, {worse} worse, {equal} equal{gone}; one-sided p = {sign_test(better, worse):.3g}."


def computation(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Mean FLOPs per experiment, arm by arm, and the total."""
    found = [
        (f"FLOPs of an experiment, {arm}", f"{statistics.fmean(outcome.best.flops for outcome in group):.3g}")
        for arm, group in by_arm(outcomes).items()
    ]
    return [*found, ("FLOPs of all experiments", f"{sum(outcome.best.flops for outcome in outcomes):.3g}")]


STATISTICS: dict[str, Callable[[Sequence[Outcome]], list[Finding]]] = {
    "mean": mean,
    "correlation": validation_and_test,
    "sign-test": after_changes,
    "flops": computation,
}
"""The statistics by the names that plans use."""


def description(name: str) -> str:
    """What a statistic is, in one sentence."""
    return " ".join((STATISTICS[name].__doc__ or name).split())


def findings(names: Sequence[str], outcomes: Sequence[Outcome]) -> list[Finding]:
    """All statistics that a plan names."""
    return [finding for name in names for finding in STATISTICS[name](outcomes)] if outcomes else []


def by_arm(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The arms in the order in which they first appear."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.arm, []).append(outcome)
    return found


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's correlation, or None if it is undefined."""
    if len(pairs) < 2:
        return None
    xs, ys = zip(*pairs, strict=True)
    x, y = statistics.fmean(xs), statistics.fmean(ys)
    product = math.fsum((a - x) * (b - y) for a, b in pairs)
    squares = math.fsum((a - x) ** 2 for a in xs) * math.fsum((b - y) ** 2 for b in ys)
    return product / math.sqrt(squares) if squares > 0 else None


def sign_test(better: int, worse: int) -> float:
    """The probability of at least `better` successes if both were equally likely; ties do not count."""
    n = better + worse
    return float(sum(math.comb(n, k) for k in range(better, n + 1)) / 2**n)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One arm: means over its repeats."""

    arm: str
    repeats: int
    validation: float
    test: float
    spread: float | None  # twice the standard error of the mean test accuracy; None for a single repeat
    individuals: float
    flops: float
    parameters: float
    useful: float


def lines(outcomes: Sequence[Outcome]) -> list[Line]:
    """The arms in the order in which they first appear."""
    return [_line(arm, group) for arm, group in by_arm(outcomes).items()]


def _line(arm: str, outcomes: list[Outcome]) -> Line:
    tests, mean = [each.test_accuracy for each in outcomes], statistics.fmean
    return Line(
        arm=arm, repeats=len(outcomes), validation=mean(each.validation for each in outcomes), test=mean(tests),
        spread=2 * statistics.stdev(tests) / len(tests) ** 0.5 if len(tests) > 1 else None,
        individuals=mean(each.best.individuals for each in outcomes), flops=mean(each.best.flops for each in outcomes),
        parameters=mean(each.parameters for each in outcomes), useful=mean(each.useful for each in outcomes),
    )  # fmt: skip
