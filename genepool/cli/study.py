"""`genepool study`: run a plan of experiments and report on it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.cli.estimate import estimate_text
from genepool.cli.options import DATA_DIR, DEVICE, FOLDER, JSON, json_text, settings_of, split
from genepool.cli.text import amount, percent, span, table

if TYPE_CHECKING:
    from genepool.experiment import Experiment
    from genepool.study import Line, StudyPlan

EVERY = 20.0
"""Seconds between two lines of progress."""


class StudyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that are not settings."""

    out: Path | None
    scale: str
    preset: str | None
    estimate: bool
    flops_per_second: float | None
    repeats: int | None
    only: tuple[str, ...]
    data_dir: Path | None
    device: str
    as_json: bool


@click.command()
@click.argument("plan", required=False)
@click.option("--out", type=FOLDER, help="Folder to write.  [default: studies/PLAN]")
@click.option("--scale", default="laptop", show_default=True, help="The plan's scale: laptop or paper.")
@click.option("--preset", help="Rules: paper, lab, faithful or laptop.  [default: the plan's]")
@click.option("--estimate", is_flag=True, help="Print what the study would take, and run nothing.")
@click.option("--flops-per-second", type=click.FloatRange(0, min_open=True), help="For --estimate: a worker's speed.")
@click.option("--data", "data__source", help="Data set, folder of images or .npz file.  [default: the plan's]")
@click.option("--repeats", type=click.IntRange(1), help="Experiments per arm.  [default: the plan's]")
@click.option("--only", multiple=True, metavar="ARM", help="Run only this arm; may be repeated.")
@click.option("--flops", "budget__flops", type=float, help="Budget in FLOPs, like 1e15.  [default: the plan's]")
@click.option("--time", "budget__time", help="Budget in time, like 90s, 10m or 2h.  [default: the plan's]")
@DATA_DIR
@DEVICE
@JSON
def study(plan: str | None, **given: Any) -> None:
    """Run the experiments of PLAN, a shipped one or your own .toml file; started again, it continues.

    Without a PLAN the shipped ones are listed. The best network of each experiment is chosen by validation accuracy;
    its test accuracy is reported, with the statistics that the plan named before anything ran.
    """
    from genepool.study import begin_study, findings, lines, narrowed, read_plan, run_study
    from genepool.study.report import write_report

    if plan is None:
        click.echo(_shipped())
        return
    options, settings = split(StudyOptions, given)
    changes = _changes(settings)
    chosen = read_plan(plan, options.scale)
    chosen = msgspec.structs.replace(chosen, preset=options.preset or chosen.preset)
    chosen = narrowed(chosen, repeats=options.repeats, arms=options.only, changes=changes)
    if options.estimate:
        click.echo(estimate_text(chosen, options.flops_per_second, options.device, options.as_json))
        return
    parts = [Path(plan).stem, "" if options.scale == "laptop" else options.scale, options.preset or ""]
    folder = options.out or Path("studies") / "-".join(filter(None, parts))
    begin_study(chosen, folder)
    click.echo(_announcement(chosen), err=True)
    outcomes = run_study(chosen, folder, data_dir=options.data_dir, device=options.device, look=_ProgressLine())
    report = write_report(folder)
    if options.as_json:
        click.echo(json_text(lines(outcomes)))
        return
    results = "\n".join(f"{what}: {value}" for what, value in findings(chosen.statistics, outcomes))
    click.echo(f"{_page(lines(outcomes))}\n\n{results}\n\nreport  {report}")


def _changes(settings: dict[str, Any]) -> dict[str, Any]:
    from genepool.settings import seconds

    changes = settings_of(settings)
    if "budget.time" in changes:
        changes["budget.time"] = seconds(changes["budget.time"])
    if "data.source" in changes and Path(changes["data.source"]).exists():
        changes["data.source"] = str(Path(changes["data.source"]).resolve())  # workers may run in another folder
    return changes


def _announcement(plan: StudyPlan) -> str:
    """The plan and its statistics, before anything runs."""
    from genepool.study import description

    statistics = "\n".join(f"  {name}: {description(name)}" for name in plan.statistics)
    return (
        f"{plan.about}\n{len(plan.arms)} arms, {plan.repeats} repeats, scale {plan.scale}: {plan.label()}\n"
        f"Statistics, decided now:\n{statistics}"
    )


class _ProgressLine:
    """Prints a line every few seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, place: str, experiment: Experiment) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        spent = experiment.history().spending()
        click.echo(
            f"{place}: {span(spent.seconds)}, {amount(spent.flops)}FLOP, {spent.individuals} individuals, "
            f"best {percent(spent.best)}",
            err=True,
        )


def _shipped() -> str:
    from genepool.study import read_plan, shipped_plans

    width = max(map(len, shipped_plans()))
    return "\n".join(f"{name:{width}}  {read_plan(name).about}" for name in shipped_plans())


def _page(found: list[Line]) -> str:
    rows = [
        [
            line.arm,
            str(line.repeats),
            percent(line.validation),
            percent(line.test),
            "" if line.spread is None else f"± {100 * line.spread:.1f}",
            f"{line.individuals:.0f}",
            f"{amount(line.flops)}FLOP",
            amount(round(line.parameters)).strip(),
            percent(line.useful),
        ]
        for line in found
    ]
    columns = ["validation", "test", "2 s.e.", "individuals", "spent", "parameters", "in the best's lineage"]
    return table(["arm", "repeats", *columns], rows)
