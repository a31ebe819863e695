"""What the figures of a study are drawn from: plain rows, which are also written as CSV."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from genepool.errors import StorageError, shown
from genepool.plots.dependence import Circle
from genepool.plots.repeatability import Moment
from genepool.study.outcome import Outcome
from genepool.study.statistics import by_arm

MOMENTS = 200
"""Points of a curve."""


def moments(outcomes: Sequence[Outcome]) -> list[Moment]:
    """Each arm's mean test accuracy over time, from when all its repeats have one."""
    longest = max((outcome.best.seconds for outcome in outcomes), default=0.0)
    found = []
    for arm, group in by_arm(outcomes).items():
        for step in range(MOMENTS + 1):
            seconds = longest * step / MOMENTS
            tests = [test for test in (test_at(outcome, seconds) for outcome in group) if test is not None]
            if len(tests) == len(group):
                deviation = statistics.stdev(tests) if len(tests) > 1 else None
                found.append(Moment(arm, seconds, statistics.fmean(tests), deviation, len(tests)))
    return found


def test_at(outcome: Outcome, seconds: float) -> float | None:
    """The test accuracy of the best by validation among those who became alive until then."""
    tested = [record.test for record in outcome.records if record.seconds <= seconds and record.test is not None]
    return tested[-1] if tested else None


def circles(outcomes: Sequence[Outcome], setting: str) -> list[Circle]:
    """One for each experiment."""
    return [
        Circle(float(outcome.settings.get(setting, 0)), outcome.seed, outcome.validation, outcome.test_accuracy)
        for outcome in outcomes
    ]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """With the names of the columns first."""
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise StorageError(f"The rows cannot be written to '{shown(path)}': {error.strerror or error}.") from None
