"""The report of a study with its figures, and the files of a report: the same study gives the same files."""

import os
import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from genepool.analysis import Dot, History, dots
from genepool.data import write_atomic
from genepool.errors import DataError, GenepoolError, PopulationFormatError, StorageError, shown
from genepool.experiment import Experiment
from genepool.settings import departures, rules_label
from genepool.study import Outcome, StudyPlan, description, findings, known_test_accuracies, path_of, read_study
from genepool.study.outcome import PlannedChange
from genepool.study.plan import RESET, Point, PublishedCurve
from genepool.study.plots import studies as plots
from genepool.study.report import experiment as report
from genepool.study.report.document import Document, Picture, Section, Table, Text, html_page, markdown
from genepool.study.report.experiment import percent
from genepool.study.run import PLAN
from genepool.study.statistics import by_arm

FOLDER = "report"
MOMENTS = 200  # points per curve
PANELS = 4  # the most experiments in the figure of escapes


def write_report(place: Path, out: Path | None = None, *, published: bool = False) -> Path:
    """Write the report of an experiment or a study, and return the path of the page. With `published`, results that the
    plan of a study quotes are drawn even if they are of other data.
    """
    is_study = (place / PLAN).is_file()
    if not is_study and not (place / "experiment.json").is_file():
        raise PopulationFormatError(
            f"'{shown(place)}' is neither an experiment nor a study; give the directory of one."
        )
    folder = out if out is not None else place / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if is_study:
            document = study_document(place, folder, published)
        else:
            document = report.experiment_document(Experiment.open(place), folder)
        page = folder / "report.html"
        for path, text in ((folder / "report.md", markdown(document)), (page, html_page(document, folder))):
            write_atomic(path, text.encode())
    except OSError as error:
        raise StorageError(f"The report cannot be written to '{shown(folder)}': {error.strerror or error}.") from None
    return page


def study_document(study: Path, folder: Path, published: bool = False) -> Document:
    """The finished experiments of a study; nothing is run or measured."""
    plan, outcomes = read_study(study)
    if not outcomes:
        raise DataError(f"No experiment of the study '{shown(study)}' is finished; run `genepool study` first.")
    best = max(outcomes, key=lambda outcome: outcome.validation)
    verdict = (
        f"The best experiment by validation accuracy ({percent(best.validation)}) is {best.arm}, seed {best.seed}: "
        f"its test accuracy is {percent(best.test_accuracy)}."
    )
    histories = _histories(study, outcomes)
    figures = StudyFigures(plan, folder, published).draw(outcomes, histories)
    closer, settings = [], plan.settings_of(best.arm, best.seed)
    history = next((known for outcome, known in histories if outcome is best), None)
    if history is not None and best.id in history.rows:
        label = f"{best.arm}, seed {best.seed}: {rules_label(settings, plan.preset)}"
        tested = known_test_accuracies(Experiment.open(path_of(study, best.arm, best.seed)))
        figures += report.experiment_figures(history, best.id, folder, tested, label)
        closer = report.best_sections(history, best.id, tested)
    return Document(
        f"Study {os.path.basename(study.resolve())}",  # noqa: PTH119
        (
            _asked(plan, len(outcomes)),
            Section("Result", (Text(verdict), _table(outcomes))),
            Section("Statistics", (Table(("computed", "found"), findings(plan.statistics, outcomes)),)),
            Section("Figures", figures),
            *closer,
            report.comparison(settings, percent(best.test_accuracy), f"{best.parameters / 1e6:.1f} M"),
            _repeating(plan, outcomes),
        ),
    )


def _histories(study: Path, outcomes: list[Outcome]) -> list[tuple[Outcome, History]]:
    found = []
    for outcome in outcomes:
        with suppress(GenepoolError):  # moved away: tables and curves need only the outcome
            found.append((outcome, Experiment.open(path_of(study, outcome.arm, outcome.seed)).history()))
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


def _table(outcomes: list[Outcome]) -> Table:
    header = ("arm", "seed", "validation", "test", "parameters", "FLOPs", "time", "individuals")
    rows = [
        (
            each.arm, str(each.seed), percent(each.validation), percent(each.test_accuracy), f"{each.parameters:,}",
            f"{each.best.flops:.3g}", f"{each.best.seconds:,.0f} s", f"{each.best.individuals:,}",
        )
        for each in outcomes
    ]  # fmt: skip
    return Table(header, rows)


def _repeating(plan: StudyPlan, outcomes: list[Outcome]) -> Section:
    """Seeds, versions and settings: first what each arm changes, then what all have in common."""
    versions = sorted({(name, version) for each in outcomes for name, version in each.versions.items()})
    common = {name: value for name, value in outcomes[0].settings.items() if name != "experiment.seed"}
    shared = {n: v for n, v in common.items() if all(each.settings.get(n) == v for each in outcomes)}
    arms = [(arm, _own(plan, arm), ", ".join(departures(plan.settings_of(arm, 1))) or "none") for arm in plan.arms]
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
    own += [f"{_words(change.recorded)} {change.moment}" for change in plan.changes(arm)]
    return "; ".join(own) or "-"


def _words(changes: dict[str, Any]) -> str:
    return ", ".join("weights reset" if name == RESET else f"{name} = {value}" for name, value in changes.items())


def moments(outcomes: Sequence[Outcome]) -> list[plots.Moment]:
    """Each arm's mean test accuracy over time, from the moment when all its repeats have one."""
    longest = max((outcome.best.seconds for outcome in outcomes), default=0.0)
    found = []
    for arm, group in by_arm(outcomes).items():
        for step in range(MOMENTS + 1):
            seconds = longest * step / MOMENTS
            tests = [test for test in (test_at(outcome, seconds) for outcome in group) if test is not None]
            if len(tests) == len(group):
                deviation = statistics.stdev(tests) if len(tests) > 1 else None
                found.append(plots.Moment(arm, seconds, statistics.fmean(tests), deviation, len(tests)))
    return found


def test_at(outcome: Outcome, seconds: float) -> float | None:
    """The test accuracy, at this moment, of the individual of highest validation accuracy so far."""
    tested = [record.test for record in outcome.records if record.seconds <= seconds and record.test is not None]
    return tested[-1] if tested else None


class StudyFigures:
    """Draws the figures of one study into a folder. Published results of other data are drawn only if `published`."""

    def __init__(self, plan: StudyPlan, folder: Path, published: bool = False) -> None:
        self._plan, self._folder, self._label = plan, folder, plan.label()
        quoted = [*(point.data for point in plan.points), *(curve.data for curve in plan.curves)]
        self._data = {"", plan.common().data.source, *(quoted if published else ())}

    def draw(self, outcomes: list[Outcome], histories: list[tuple[Outcome, History]]) -> list[Picture]:
        """Draw accuracy against FLOPs, and the figure that the plan names."""
        found: list[Picture] = []
        if self._plan.figure == "repeatability":
            found = self._repeatability(outcomes)
        elif self._plan.figure == "dependence":
            found = self._dependence(outcomes)
        elif self._plan.figure == "escape":
            found = self._escapes(histories)
        return [*found, self._economy(outcomes)]

    def _repeatability(self, outcomes: list[Outcome]) -> list[Picture]:
        rows = moments(outcomes)
        if not rows:
            return []
        curves = [
            plots.Published(_of_data(each), [(hours / each.hours, best) for hours, best in each.points], each.deviation)
            for each in self._plan.curves
            if each.data in self._data
        ]
        report.write_csv(self._folder / "repeatability.csv", plots.Moment._fields, rows)
        plots.draw_repeatability(rows, self._folder / "repeatability.png", self._label, curves)
        caption = "At each moment, the test accuracy of the individual of highest validation accuracy so far."
        return [Picture("repeatability", f"{caption} Rows: repeatability.csv.")]

    def _dependence(self, outcomes: list[Outcome]) -> list[Picture]:
        against = self._plan.against
        points = [
            plots.Circle(float(each.settings.get(against, 0)), each.seed, each.validation, each.test_accuracy)
            for each in outcomes
        ]
        report.write_csv(self._folder / "dependence.csv", plots.Circle._fields, points)
        plots.draw_dependence(points, against, self._folder / "dependence.png", self._label)
        return [Picture("dependence", "Each circle is an experiment; all had equal budgets. Rows: dependence.csv.")]

    def _escapes(self, histories: list[tuple[Outcome, History]]) -> list[Picture]:
        chosen = [(outcome, dots(history)) for outcome, history in histories if outcome.changes][:PANELS]
        if not chosen:
            return []
        lines = ((outcome.arm, outcome.seed, *dot) for outcome, rows in chosen for dot in rows)
        report.write_csv(self._folder / "escape.csv", ("arm", "seed", *Dot._fields), lines)
        panels = [
            plots.Panel(f"{outcome.arm}, seed {outcome.seed}", rows, [_marked(change) for change in outcome.changes])
            for outcome, rows in chosen
        ]
        plots.draw_escapes(panels, self._folder / "escape.png", self._label)
        return [Picture("escape", "Each dot is an individual; dashed: settings changed. Rows: escape.csv.")]

    def _economy(self, outcomes: list[Outcome]) -> Picture:
        points = [point for point in self._plan.points if point.data in self._data]
        stars = [plots.Star(_of_data(point), point.flops, point.accuracy) for point in points]
        rows = ((each.arm, each.seed, flops, best) for each in outcomes for flops, best in each.curve)
        report.write_csv(self._folder / "economy.csv", ("arm", "seed", "flops", "validation"), rows)
        curves = [plots.Curve(each.arm, each.curve, each.test_accuracy) for each in outcomes]
        plots.draw_study(curves, stars, self._folder / "economy.png", self._label)
        words = "Best validation accuracy so far against the FLOPs of the whole search; the dot is the test accuracy."
        return Picture("economy", f"{words} Rows: economy.csv.")


def _of_data(published: Point | PublishedCurve) -> str:
    return f"{published.label} ({published.data})" if published.data else published.label


def _marked(change: PlannedChange) -> tuple[float, str]:
    return change.seconds, _words(change.set) + (" (plateau)" if change.why == "plateau" else "")
