"""The report of a study, and the files of a report: the same study gives the same files."""

from __future__ import annotations

import os
from pathlib import Path

from genepool.analysis import History
from genepool.data import write_atomic
from genepool.errors import DataError, GenepoolError, PopulationFormatError, StorageError, shown
from genepool.experiment import Experiment
from genepool.settings import departures, rules_label
from genepool.study import Outcome, StudyPlan, findings, known_test_accuracies, path_of, read_study
from genepool.study.report.document import Document, Section, Table, Text, html_page, markdown
from genepool.study.report.experiment import best_sections, comparison, experiment_document, percent, seconds
from genepool.study.report.figures import StudyFigures, experiment_figures
from genepool.study.run import PLAN
from genepool.study.statistics import description


def study_document(study: Path, folder: Path, published: bool = False) -> Document:
    """The finished experiments of a study; nothing is run or measured."""
    plan, outcomes = read_study(study)
    if not outcomes:
        raise DataError(f"No experiment of the study '{shown(study)}' is finished; run `genepool study` first.")
    best = max(outcomes, key=lambda outcome: outcome.validation)
    histories = _histories(study, outcomes)
    figures = StudyFigures(plan, folder, published).draw(outcomes, histories)
    closer, settings = [], plan.settings_of(best.arm, best.seed)
    history = next((known for outcome, known in histories if outcome is best), None)
    if history is not None and best.id in history.rows:
        label = f"{best.arm}, seed {best.seed}: {rules_label(settings, plan.preset)}"
        tested = known_test_accuracies(Experiment.open(path_of(study, best.arm, best.seed)))
        figures += experiment_figures(history, best.id, folder, tested, label)
        closer = best_sections(history, best.id, tested)
    return Document(
        f"Study {os.path.basename(study.resolve())}",  # noqa: PTH119
        (
            _asked(plan, len(outcomes)),
            Section("Result", (Text(_verdict(best)), _table(outcomes))),
            Section("Statistics", (Table(("computed", "found"), findings(plan.statistics, outcomes)),)),
            Section("Figures", figures),
            *closer,
            comparison(settings, percent(best.test_accuracy), f"{best.parameters / 1e6:.1f} M"),
            _repeating(plan, outcomes),
        ),
    )


def _histories(study: Path, outcomes: list[Outcome]) -> list[tuple[Outcome, History]]:
    """The histories of the experiments whose directories still exist."""
    found = []
    for outcome in outcomes:
        try:
            found.append((outcome, Experiment.open(path_of(study, outcome.arm, outcome.seed)).history()))
        except GenepoolError:  # moved away: tables and curves need only the outcome
            continue
    return found


def _asked(plan: StudyPlan, finished: int) -> Section:
    count = len(plan.runs())
    state = "all are finished" if finished == count else f"{finished} of them are finished"
    blocks: list[Text | Table] = [
        Text(plan.about or "The plan does not say."),
        Text(plan.label()),
        Text(f"{len(plan.arms)} arms, each repeated {plan.repeats} times: {count} experiments, of which {state}."),
        Text("Statistics that the plan named before anything ran:"),
        Table(("name", "what it is"), [(name, description(name)) for name in plan.statistics]),
    ]
    return Section("What was asked", blocks)


def _verdict(best: Outcome) -> str:
    return (
        f"The best experiment by validation accuracy ({percent(best.validation)}) is {best.arm}, seed {best.seed}: "
        f"its test accuracy is {percent(best.test_accuracy)}."
    )


def _table(outcomes: list[Outcome]) -> Table:
    header = ("arm", "seed", "validation", "test", "parameters", "FLOPs", "time", "individuals")
    rows = [
        (
            each.arm,
            str(each.seed),
            percent(each.validation),
            percent(each.test_accuracy),
            f"{each.parameters:,}",
            f"{each.best.flops:.3g}",
            seconds(each.best.seconds),
            f"{each.best.individuals:,}",
        )
        for each in outcomes
    ]
    return Table(header, rows)


def _repeating(plan: StudyPlan, outcomes: list[Outcome]) -> Section:
    """Seeds, versions and settings: first what each arm changes, then what all have in common."""
    versions = sorted({(name, version) for each in outcomes for name, version in each.versions.items()})
    common = {name: value for name, value in outcomes[0].settings.items() if name != "experiment.seed"}
    shared = {n: v for n, v in common.items() if all(each.settings.get(n) == v for each in outcomes)}
    arms = [(arm, _own(plan, arm), _departures(plan, arm)) for arm in plan.arms]
    return Section(
        "Repeating it",
        (
            Table(("program", "version"), versions),
            Text(f"Preset {plan.preset}, scale {plan.scale}, seeds 1 to {plan.repeats}. What the arms change:"),
            Table(("arm", "settings", "departures from the paper"), arms),
            Text("What all experiments have in common:"),
            Table(("setting", "value"), [(name, str(value)) for name, value in shared.items()]),
        ),
    )


def _own(plan: StudyPlan, arm: str) -> str:
    """What an arm sets, and what it changes when."""
    own = [f"{name} = {value}" for name, value in plan.arms[arm].items() if name != "changes"]
    for change in plan.changes(arm):
        values = [f"{name} = {value}" for name, value in change.set.items()]
        own.append(f"{', '.join([*values, *(['weights reset'] if change.reset_weights else [])])} {change.moment}")
    return "; ".join(own) or "-"


def _departures(plan: StudyPlan, arm: str) -> str:
    return ", ".join(departures(plan.settings_of(arm, 1))) or "none"


FOLDER = "report"


def write_report(place: Path, out: Path | None = None, *, published: bool = False) -> Path:
    """Write the report of an experiment or a study, and return the path of the page.

    With `published`, results that the plan of a study quotes are drawn even if they are of other data.
    """
    is_study = (place / PLAN).is_file()
    if not is_study and not (place / "experiment.json").is_file():
        raise PopulationFormatError(
            f"'{shown(place)}' is neither an experiment nor a study; give the directory of one."
        )
    folder = out if out is not None else place / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        document = (
            study_document(place, folder, published)
            if is_study
            else experiment_document(Experiment.open(place), folder)
        )
        page = folder / "report.html"
        for path, text in ((folder / "report.md", markdown(document)), (page, html_page(document, folder))):
            write_atomic(path, text.encode())
    except OSError as error:
        raise StorageError(f"The report cannot be written to '{shown(folder)}': {error.strerror or error}.") from None
    return page
