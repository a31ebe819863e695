"""The figures of a report, and the rows that they are drawn from, as CSV."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from genepool.analysis import Dot, History, dots, four_ancestors
from genepool.errors import StorageError, shown
from genepool.study.outcome import Outcome, PlannedChange
from genepool.study.plan import Point, PublishedCurve, StudyPlan
from genepool.study.plots.lineage import draw_ancestors, draw_tree
from genepool.study.plots.studies import (
    Circle,
    Curve,
    Moment,
    Panel,
    Published,
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


def experiment_figures(
    history: History, best: str, folder: Path, tested: Mapping[str, float], label: str
) -> list[Picture]:
    """Draw the progress with four networks, and the ancestry; `tested` has test accuracies by ID."""
    rows, networks = dots(history), four_ancestors(history.rows, best, tested)
    write_csv(folder / "progress.csv", Dot._fields, rows)
    draw_ancestors(rows, networks, folder / "progress.png", label)
    draw_tree(rows, best, folder / "ancestry.png", label)
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


class StudyFigures:
    """Draws the figures of one study into a folder. Published results of other data are drawn only if `published`."""

    def __init__(self, plan: StudyPlan, folder: Path, published: bool = False) -> None:
        self._plan, self._folder = plan, folder
        self._label = plan.label()
        quoted = [*(point.data for point in plan.points), *(curve.data for curve in plan.curves)]
        self._data = {"", plan.common().data.source, *(quoted if published else ())}

    def draw(self, outcomes: list[Outcome], histories: list[tuple[Outcome, History]]) -> list[Picture]:
        """Draw accuracy against FLOPs, and the figure that the plan names."""
        found: list[Picture] = []
        match self._plan.figure:
            case "repeatability":
                found += self._repeatability(outcomes)
            case "dependence":
                found += self._dependence(outcomes)
            case "escape":
                found += self._escapes(histories)
            case _:
                pass
        return [*found, self._economy(outcomes)]

    def _repeatability(self, outcomes: list[Outcome]) -> list[Picture]:
        rows = moments(outcomes)
        if not rows:
            return []
        curves = [
            Published(_of_data(each), [(hours / each.hours, best) for hours, best in each.points], each.deviation)
            for each in self._plan.curves
            if each.data in self._data
        ]
        write_csv(self._folder / "repeatability.csv", Moment._fields, rows)
        draw_repeatability(rows, self._folder / "repeatability.png", self._label, curves)
        caption = "At each moment, the test accuracy of the individual of highest validation accuracy so far."
        return [Picture("repeatability", f"{caption} Rows: repeatability.csv.")]

    def _dependence(self, outcomes: list[Outcome]) -> list[Picture]:
        points = circles(outcomes, self._plan.against)
        write_csv(self._folder / "dependence.csv", Circle._fields, points)
        draw_dependence(points, self._plan.against, self._folder / "dependence.png", self._label)
        return [Picture("dependence", "Each circle is an experiment; all had equal budgets. Rows: dependence.csv.")]

    def _escapes(self, histories: list[tuple[Outcome, History]]) -> list[Picture]:
        chosen = [(outcome, dots(history)) for outcome, history in histories if outcome.changes][:PANELS]
        if not chosen:
            return []
        write_csv(
            self._folder / "escape.csv",
            ("arm", "seed", *Dot._fields),
            ((outcome.arm, outcome.seed, *dot) for outcome, rows in chosen for dot in rows),
        )
        panels = [
            Panel(
                f"{outcome.arm}, seed {outcome.seed}",
                rows,
                [(change.seconds, _words(change)) for change in outcome.changes],
            )
            for outcome, rows in chosen
        ]
        draw_escapes(panels, self._folder / "escape.png", self._label)
        return [Picture("escape", "Each dot is an individual; dashed: settings changed. Rows: escape.csv.")]

    def _economy(self, outcomes: list[Outcome]) -> Picture:
        points = [point for point in self._plan.points if point.data in self._data]
        stars = [Star(_of_data(point), point.flops, point.accuracy) for point in points]
        rows = ((each.arm, each.seed, flops, best) for each in outcomes for flops, best in each.curve)
        write_csv(self._folder / "economy.csv", ("arm", "seed", "flops", "validation"), rows)
        curves = [Curve(each.arm, each.curve, each.test_accuracy) for each in outcomes]
        draw_study(curves, stars, self._folder / "economy.png", self._label)
        words = "Best validation accuracy so far against the FLOPs of the whole search; the dot is the test accuracy."
        return Picture("economy", f"{words} Rows: economy.csv.")


def _of_data(published: Point | PublishedCurve) -> str:
    return f"{published.label} ({published.data})" if published.data else published.label


def _words(change: PlannedChange) -> str:
    """What changed and why then, for a figure."""
    values = {name: value for name, value in change.set.items() if name != "reset_weights"}
    words = [f"{name} = {value}" for name, value in values.items()]
    words += ["weights reset"] if "reset_weights" in change.set else []
    return ", ".join(words) + (" (plateau)" if change.why == "plateau" else "")
