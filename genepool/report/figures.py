"""Draws a report's figures into its folder, each with the rows that it was drawn from."""

from __future__ import annotations

from pathlib import Path

from genepool.analysis import Dot, History, dots, four_ancestors
from genepool.plots.ancestors import draw_ancestors
from genepool.plots.dependence import Circle, draw_dependence
from genepool.plots.escape import Panel, draw_escapes
from genepool.plots.repeatability import Moment, draw_repeatability
from genepool.plots.study import Curve, Star, draw_study
from genepool.plots.tree import draw_tree
from genepool.report.document import Picture
from genepool.report.rows import circles, moments, write_csv
from genepool.study.outcome import Outcome
from genepool.study.plan import StudyPlan

PANELS = 4
"""Experiments in the figure of escapes."""


def experiment_figures(history: History, best: str, folder: Path) -> list[Picture]:
    """Progress with four networks, and the ancestry."""
    rows = dots(history)
    write_csv(folder / "progress.csv", Dot._fields, rows)
    draw_ancestors(rows, four_ancestors(history, best), folder / "progress.png")
    draw_tree(rows, best, folder / "ancestry.png")
    return [
        Picture(
            "progress",
            "Each dot is an individual. The diagrams are the best by validation accuracy (right) and ancestors of it; "
            "white boxes have no nonlinearity, orange ones more than one. Rows: progress.csv.",
        ),
        Picture("ancestry", "Who came from whom; the line leads to the best. Rows: progress.csv."),
    ]


def study_figures(
    plan: StudyPlan, outcomes: list[Outcome], histories: list[tuple[Outcome, History]], folder: Path
) -> list[Picture]:
    """Accuracy against FLOPs, and the figure that the plan's question calls for."""
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
    chosen = [(outcome, dots(history)) for outcome, history in histories if outcome.marks][:PANELS]
    panels = [
        Panel(
            f"{outcome.arm}, seed {outcome.seed}",
            rows,
            [(mark.seconds, ", ".join(f"{k} = {v}" for k, v in mark.set.items())) for mark in outcome.marks],
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
    used = plan.settings_of(next(iter(plan.arms)), 1).data
    stars = [Star(point.label, point.flops, point.accuracy) for point in plan.points if point.data in ("", used)]
    rows = ((each.arm, each.seed, flops, best) for each in outcomes for flops, best in each.curve)
    write_csv(folder / "economy.csv", ("arm", "seed", "flops", "validation"), rows)
    draw_study([Curve(each.arm, each.curve, each.test_accuracy) for each in outcomes], stars, folder / "economy.png")
    words = "Best validation accuracy so far against the FLOPs of the whole search; the dot is the test accuracy."
    return Picture("economy", f"{words} Rows: economy.csv.")
