"""The report of one experiment, compared with the paper's two tables of test accuracies."""

from __future__ import annotations

import os
from pathlib import Path

from genepool.analysis import History, lineage
from genepool.experiment import Experiment, choose_best, measured_before
from genepool.settings import Settings, by_name, rules_label, written
from genepool.study.report.document import Document, Section, Table, Text
from genepool.study.report.figures import experiment_figures

BY_HAND = (
    ("Maxout", "-", "90.7 %", "61.4 %", "no"),
    ("Network in Network", "-", "91.2 %", "-", "no"),
    ("All-CNN", "1.3 M", "92.8 %", "66.3 %", "yes"),
    ("Deeply Supervised", "-", "92.0 %", "65.4 %", "no"),
    ("Highway", "2.3 M", "92.3 %", "67.6 %", "no"),
    ("ResNet", "1.7 M", "93.4 %", "72.8 %", "yes"),
    ("Evolution (the paper)", "5.4 M / 40.4 M", "94.6 %", "77.0 %", "-"),
    ("Wide ResNet 28-10", "36.5 M", "96.0 %", "80.0 %", "yes"),
    ("Wide ResNet 40-10+d/o", "50.7 M", "96.2 %", "81.7 %", "no"),
    ("DenseNet", "25.6 M", "96.7 %", "82.8 %", "no"),
)
"""Study, parameters, CIFAR-10, CIFAR-100, whether the search could reach it."""

DISCOVERED = (
    ("Bayesian", "3 layers", "none", "-", "90.5 %", "-"),
    ("Q-Learning", "-", "tune, retrain", "11.2 M", "93.1 %", "72.9 %"),
    ("RL", "20 layers, 50 % skips", "small grid search, retrain", "2.5 M", "94.0 %", "-"),
    ("RL", "39 layers, 2 pool layers, 50 % skips", "more filters, small grid search, retrain", "37.0 M", "96.4 %", "-"),
    ("Evolution (the paper)", "single layer, zero convs.", "none", "5.4 M / 40.4 M", "94.6 %", "77.0 %"),
    ("Evolution (the paper), ensemble", "single layer, zero convs.", "none", "-", "95.6 %", "-"),
)
"""Study, starting point, post-processing, parameters, CIFAR-10, CIFAR-100."""


BEST = "The best is the living individual of highest validation accuracy."


def comparison(data: str, accuracy: str, parameters: str) -> Section:
    """Both tables, with a line of our own where the data set is one of theirs."""
    ten, hundred = (accuracy if data == name else "-" for name in ("cifar-10", "cifar-100"))
    words = "Test accuracies; the paper's are with 250 workers and 9e19 FLOPs an experiment."
    by_hand, discovered = [*BY_HAND], [*DISCOVERED]
    if data in ("cifar-10", "cifar-100"):
        by_hand.append(("This report", parameters, ten, hundred, "-"))
        discovered.append(("This report", "single layer, zero convs.", "none", parameters, ten, hundred))
    else:
        words += f" This report is about '{data}', so there is no line of its own to compare."
    return Section(
        "Beside the paper's tables",
        (
            Text(words),
            Text("Designed by hand:"),
            Table(("study", "parameters", "CIFAR-10", "CIFAR-100", "reachable"), by_hand),
            Text("Discovered automatically:"),
            Table(("study", "starting point", "post-processing", "parameters", "CIFAR-10", "CIFAR-100"), discovered),
        ),
    )


def experiment_document(experiment: Experiment, folder: Path) -> Document:
    """What became of it so far; nothing is run or measured."""
    history = experiment.history()
    best = choose_best(experiment, history)
    test, spent, settings = measured_before(experiment, best.id), history.spending(), experiment.settings()
    tested = "not measured" if test is None else percent(test)
    parameters, label = best.evaluation.parameters, rules_label(experiment.settings(1))
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
            Section("Result", (Text(BEST), Text(label), table)),
            Section("Figures", experiment_figures(history, best.id, folder, label)),
            *best_sections(history, best.id),
            comparison(settings.data.source, tested, f"{parameters / 1e6:.1f} M"),
            settings_section(settings),
        ),
    )


def best_sections(history: History, identity: str) -> list[Section]:
    """The architecture of an individual, and the mutations that led to it."""
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
    """Every setting, so that the experiment can be repeated."""
    rows = [*(extra or {}).items(), *((name, written(value)) for name, value in by_name(settings).items())]
    return Section("Settings", (Table(("setting", "value"), rows),))


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def seconds(value: float) -> str:
    return f"{value:,.0f} s"
