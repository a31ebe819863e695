"""The report of one experiment."""

from __future__ import annotations

import os
from pathlib import Path

from genepool.analysis import History, lineage
from genepool.champion import choose, measured_before
from genepool.experiment import Experiment
from genepool.report.document import Document, Section, Table, Text
from genepool.report.figures import experiment_figures
from genepool.report.paper import comparison
from genepool.settings import Settings, to_values


def experiment_document(experiment: Experiment, folder: Path) -> Document:
    """What became of it so far; nothing is run or measured."""
    history = experiment.history()
    best = choose(experiment, history)
    test, spent, settings = measured_before(experiment, best.id), history.spending(), experiment.settings()
    tested = "not measured" if test is None else percent(test)
    parameters = best.evaluation.parameters
    table = Table(
        ("", "value"),
        (
            ("validation accuracy of the best", percent(best.fitness or 0.0)),
            ("its test accuracy", tested),
            ("parameters", f"{parameters:,}"),
            ("FLOPs of the search", f"{spent.flops:.3g}"),
            ("time of the search", seconds(spent.seconds)),
            ("individuals", f"{spent.individuals:,}"),
        ),
    )
    return Document(
        f"Experiment {os.path.basename(experiment.path.resolve())}",  # noqa: PTH119
        (
            Section("Result", (Text("The best is the living individual of highest validation accuracy."), table)),
            Section("Figures", experiment_figures(history, best.id, folder)),
            *best_sections(history, best.id),
            comparison(settings.data, tested, f"{parameters / 1e6:.1f} M"),
            settings_section(settings),
        ),
    )


def best_sections(history: History, identity: str) -> list[Section]:
    """The architecture of an individual, and how it came to be."""
    rows = [
        (
            str(number),
            ", ".join(each.mutations) or "from nothing",
            "-" if each.fitness is None else percent(each.fitness),
            f"{each.learning_rate:.4g}",
            f"{each.parameters:,}",
            each.network,
            each.id,
        )
        for number, each in enumerate(lineage(history.rows, identity))
    ]
    header = ("step", "mutation", "validation", "learning rate", "parameters", "network", "individual")
    return [
        Section("Best architecture", (Text(history.rows[identity].dna.in_a_line()), Text(f"Individual {identity}."))),
        Section("Lineage of the best", (Table(header, rows),)),
    ]


def settings_section(settings: Settings, extra: dict[str, str] | None = None) -> Section:
    """All that one needs to do it again."""
    rows = [*(extra or {}).items(), *((name, str(value)) for name, value in to_values(settings).items())]
    return Section("Settings", (Table(("setting", "value"), rows),))


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def seconds(value: float) -> str:
    return f"{value:,.0f} s"
