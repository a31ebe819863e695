"""The report of one experiment with its figures, compared with the paper's two tables of test accuracies."""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from genepool.analysis import Dot, History, dots, four_ancestors, lineage
from genepool.errors import StorageError, shown
from genepool.experiment import Experiment, choose_best
from genepool.settings import Settings, by_name, rules_label, written
from genepool.study.outcome import known_test_accuracies
from genepool.study.plots.experiment import draw_ancestors, draw_tree
from genepool.study.report.document import Document, Picture, Section, Table, Text

BY_HAND = (
    ("Maxout", "-", "90.7 %", "61.4 %", "no"),
    ("Network in Network", "-", "91.2 %", "-", "no"),
    ("All-CNN", "1.3 M", "92.8 %", "66.3 %", "yes"),
    ("Deeply Supervised", "-", "92.0 %", "65.4 %", "no"),
    ("Highway", "2.3 M", "92.3 %", "67.6 %", "no"),
    ("ResNet", "1.7 M", "93.4 %", "72.8 % (by Huang et al., 2016)", "yes"),
    ("Evolution (the paper)", "5.4 M / 40.4 M", "94.6 %", "77.0 %", "-"),
    ("Wide ResNet 28-10", "36.5 M", "96.0 %", "80.0 %", "yes"),
    ("Wide ResNet 40-10+d/o", "50.7 M", "96.2 %", "81.7 %", "no"),
    ("DenseNet", "25.6 M", "96.7 %", "82.8 %", "no"),
)
"""Study, parameters, CIFAR-10, CIFAR-100, whether the search could reach it."""
START, CONSTRAINTS = "single layer, zero convs.", "power-of-2 strides"
PAPER = (START, CONSTRAINTS, "none")
DISCOVERED = (
    ("Bayesian", "3 layers", "fixed architecture, no skips", "none", "-", "90.5 %", "-"),
    ("Q-Learning", "-", "discrete params., max. num. layers, no skips", "tune, retrain", "11.2 M", "93.1 %", "72.9 %"),
    ("RL", "20 layers, 50 % skips", "discrete params., exactly 20 layers", "small grid search, retrain",
     "2.5 M", "94.0 %", "-"),
    ("RL", "39 layers, 2 pool layers at 13 and 26, 50 % skips",
     "discrete params., exactly 39 layers, 2 pool layers at 13 and 26", "add more filters, small grid search, retrain",
     "37.0 M", "96.4 %", "-"),
    ("Evolution (the paper)", *PAPER, "5.4 M / 40.4 M", "94.6 %", "77.0 %"),
    ("Evolution (the paper), ensemble", *PAPER, "-", "95.6 %", "-"),
)  # fmt: skip
"""Study, starting point, constraints, post-processing, parameters, CIFAR-10, CIFAR-100."""
BEST = "The best is the living individual of highest validation accuracy."


def comparison(settings: Settings, accuracy: str, parameters: str) -> Section:
    """Both tables, with a line of our own where the data set is one of theirs."""
    data = settings.data.source
    ten, hundred = (accuracy if data == name else "-" for name in ("cifar-10", "cifar-100"))
    words = (
        "Test accuracies; the paper's are with 250 workers and 9e19 FLOPs an experiment. `genepool reach` gives the "
        "reason for each network that is not reachable, and what differs in those that are."
    )
    by_hand, discovered = [*BY_HAND], [*DISCOVERED]
    if data in ("cifar-10", "cifar-100"):
        by_hand.append(("This report", parameters, ten, hundred, "-"))
        discovered.append(("This report", *_conditions(settings), parameters, ten, hundred))
    else:
        words += f" This report is about '{data}', so there is no line of its own to compare."
    columns = ("study", "starting point", "constraints", "post-processing", "parameters", "CIFAR-10", "CIFAR-100")
    return Section(
        "Beside the paper's tables",
        (
            Text(words),
            Text("Designed by hand:"),
            Table(("study", "parameters", "CIFAR-10", "CIFAR-100", "reachable"), by_hand),
            Text("Discovered automatically:"),
            Table(columns, discovered),
        ),
    )


def _conditions(settings: Settings) -> tuple[str, str, str]:
    """Starting point, constraints and post-processing of a search with these settings."""
    limits, step, share = settings.limits, settings.breeding.width_step, settings.final_phase.share
    constraints = (
        CONSTRAINTS,
        *([f"widths in multiples of {step}"] if step > 1 else []),
        *(["step time of children"] if limits.child_steps is not None else []),
        *(["FLOPs per image"] if limits.flops is not None else []),
        *(["milliseconds per image"] if limits.milliseconds is not None else []),
    )
    start = (settings.experiment.start or "").rpartition(" ")[0] or START
    return start, ", ".join(constraints), f"final phase ({100 * share:.0f} % of the budget)" if share else "none"


def experiment_document(experiment: Experiment, folder: Path) -> Document:
    """What became of it so far; nothing is run or measured."""
    history = experiment.history()
    best, tested = choose_best(experiment, history), known_test_accuracies(experiment)
    spent, settings = history.spending(), experiment.settings()
    test = percent(tested[best.id]) if best.id in tested else "not measured"
    parameters, label = best.evaluation.parameters, rules_label(experiment.settings(1))
    table = Table(
        ("", "value"),
        (
            ("validation accuracy of the best", percent(best.accuracy or 0.0)),
            ("its test accuracy", test),
            ("parameters", f"{parameters:,}"),
            ("FLOPs of the search", f"{spent.flops:.3g}"),
            ("time of the search", f"{spent.seconds:,.0f} s"),
            ("individuals", f"{spent.individuals:,}"),
        ),
    )
    every_setting = [(name, written(value)) for name, value in by_name(settings).items()]
    return Document(
        f"Experiment {os.path.basename(experiment.path.resolve())}",  # noqa: PTH119
        (
            Section("Result", (Text(BEST), Text(label), table)),
            Section("Figures", experiment_figures(history, best.id, folder, tested, label)),
            *best_sections(history, best.id, tested),
            comparison(settings, test, f"{parameters / 1e6:.1f} M"),
            Section("Settings", (Table(("setting", "value"), every_setting),)),
        ),
    )


def best_sections(history: History, identity: str, tested: Mapping[str, float]) -> list[Section]:
    """The architecture of an individual, and the mutations that led to it; `tested` has test accuracies by ID."""
    rows = [
        (
            str(number), ", ".join(each.mutations) or "from nothing",
            "-" if each.accuracy is None else percent(each.accuracy),
            percent(tested[each.id]) if each.id in tested else "-",
            each.rates, f"{each.parameters:,}", each.network, each.id,
        )
        for number, each in enumerate(lineage(history.rows, identity))
    ]  # fmt: skip
    header = ("step", "mutation", "validation", "test", "learning rate", "parameters", "network", "individual")
    return [
        Section("Best architecture", (Text(history.rows[identity].dna.in_a_line()), Text(f"Individual {identity}."))),
        Section("Lineage of the best", (Table(header, rows),)),
    ]


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


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise StorageError(f"The rows cannot be written to '{shown(path)}': {error.strerror or error}.") from None


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"
