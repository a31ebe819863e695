"""The figures of a report, and the rows that they are drawn from, as CSV."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from genepool.analysis import Dot, History, dots, four_ancestors
from genepool.errors import StorageError, shown
from genepool.study.outcome import Outcome
from genepool.study.plan import StudyPlan
from genepool.study.plots.lineage import draw_ancestors, draw_tree
from genepool.study.plots.studies import (
    Circle,
    Curve,
    Moment,
    Panel,
    Star,
    draw_dependence,
    draw_escapes,
    draw_repeatability,
    draw_study,
)
from genepool.study.report.document import Picture
from genepool.study.statistics import by_arm

MOMENTS = 200
"""The number of points per curve."""


def moments(outcomes: Sequence[Outcome]) -> list[Moment]:
    """Each arm's mean test accuracy over time, from the moment when all its repeats have one."""
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
    """The test accuracy, at this moment, of the individual of highest validation accuracy so far."""
    tested = [record.test for record in outcome.records if record.seconds <= seconds and record.test is not None]
    return tested[-1] if tested else None


def circles(outcomes: Sequence[Outcome], setting: str) -> list[Circle]:
    """One circle per experiment."""
    return [
        Circle(float(outcome.settings.get(setting, 0)), outcome.seed, outcome.validation, outcome.test_accuracy)
        for outcome in outcomes
    ]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write the rows under a header."""
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise StorageError(f"The rows cannot be written to '{shown(path)}': {error.strerror or error}.") from None


PANELS = 4
"""The most experiments in the figure of escapes."""


def experiment_figures(history: History, best: str, folder: Path, tested: Mapping[str, float]) -> list[Picture]:
    """Draw the progress with four networks, and the ancestry; `tested` has test accuracies by ID."""
    rows, networks = dots(history), four_ancestors(history, best, tested)
    write_csv(folder / "progress.csv", Dot._fields, rows)
    draw_ancestors(rows, networks, folder / "progress.png")
    draw_tree(rows, best, folder / "ancestry.png")
    untested = sum(network.test is None for network in networks)
    hint = f" {untested} of them not tested: `genepool replay DIR {best} --test` does that." if untested else ""
    return [
        Picture(
            "progress",
            "Each dot is an individual. The diagrams are the best by validation accuracy (right) and ancestors of it; "
            f"white boxes have no nonlinearity, orange ones more than one.{hint} Rows: progress.csv.",
        ),
        Picture("ancestry", "Parents and children; the line leads to the best. Rows: progress.csv."),
    ]


def study_figures(
    plan: StudyPlan, outcomes: list[Outcome], histories: list[tuple[Outcome, History]], folder: Path
) -> list[Picture]:
    """Draw accuracy against FLOPs, and the figure that the plan names."""
    found = []
    match plan.figure:
        case "repeatability" if rows := moments(outcomes):
            write_csv(folder / "repeatability.csv", Moment._fields, rows)
            draw_repeatability(rows, folder / "repeatability.png")
            caption = "At each moment, the test accuracy of the individual of highest validation accuracy so far."
            found.append(Picture("repeatability", f"{caption} Rows: repeatability.csv."))
        case "dependence":
            points = circles(outcomes, plan.against)
            write_csv(folder / "dependence.csv", Circle._fields, points)
            draw_dependence(points, plan.against, folder / "dependence.png")
            found.append(
                Picture("dependence", "Each circle is an experiment; all had equal budgets. Rows: dependence.csv.")
            )
        case "escape":
            found += _escapes(histories, folder)
        case _:
            pass
    return [*found, _economy(plan, outcomes, folder)]


def _escapes(histories: list[tuple[Outcome, History]], folder: Path) -> list[Picture]:
    chosen = [(outcome, dots(history)) for outcome, history in histories if outcome.changes][:PANELS]
    panels = [
        Panel(
            f"{outcome.arm}, seed {outcome.seed}",
            rows,
            [(change.seconds, ", ".join(f"{k} = {v}" for k, v in change.set.items())) for change in outcome.changes],
        )
        for outcome, rows in chosen
    ]
    if not panels:
        return []
    write_csv(
        folder / "escape.csv",
        ("arm", "seed", *Dot._fields),
        ((outcome.arm, outcome.seed, *dot) for outcome, rows in chosen for dot in rows),
    )
    draw_escapes(panels, folder / "escape.png")
    return [Picture("escape", "Each dot is an individual; dashed: settings changed. Rows: escape.csv.")]


def _economy(plan: StudyPlan, outcomes: list[Outcome], folder: Path) -> Picture:
    used = plan.settings_of(next(iter(plan.arms)), 1).data.source
    stars = [Star(point.label, point.flops, point.accuracy) for point in plan.points if point.data in ("", used)]
    rows = ((each.arm, each.seed, flops, best) for each in outcomes for flops, best in each.curve)
    write_csv(folder / "economy.csv", ("arm", "seed", "flops", "validation"), rows)
    draw_study([Curve(each.arm, each.curve, each.test_accuracy) for each in outcomes], stars, folder / "economy.png")
    words = "Best validation accuracy so far against the FLOPs of the whole search; the dot is the test accuracy."
    return Picture("economy", f"{words} Rows: economy.csv.")
