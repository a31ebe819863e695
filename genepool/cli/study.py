"""`genepool study`: a plan of experiments, run one after another, with a table and a figure at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genepool.cli.options import DATA_DIR, DEVICE, JSON

if TYPE_CHECKING:
    from genepool.experiment import Experiment
    from genepool.study import Line, StudyPlan

EVERY = 20.0
"""Seconds between two lines about what goes on."""


@click.command()
@click.argument("plan", required=False)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write.  [default: studies/PLAN]"
)
@click.option("--scale", default="laptop", show_default=True, help="How large it is: laptop or paper.")
@click.option("--data", help="Another data set than the plan's: a name, a folder of images or a .npz file.")
@click.option("--repeats", type=click.IntRange(1), help="Another number than the plan's.")
@click.option("--only", multiple=True, metavar="ARM", help="Only this arm; may be repeated.")
@click.option("--flops", type=float, help="Another budget than the plan's, in FLOPs: 1e15.")
@click.option("--time", "seconds", help="Another budget than the plan's, in time: 90s, 10m, 2h.")
@DATA_DIR
@DEVICE
@JSON
def study(
    plan: str | None,
    out: Path | None,
    scale: str,
    data: str | None,
    repeats: int | None,
    only: tuple[str, ...],
    flops: float | None,
    seconds: str | None,
    data_dir: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """Runs the experiments of PLAN, a shipped one or a .toml file of yours; started again, it goes on where it was.

    Without a PLAN the shipped ones are listed. The best of each experiment is chosen by validation accuracy, its test
    accuracy is reported, and the statistics are those that the plan named before anything ran.
    """
    from genepool.cli.options import json_text
    from genepool.settings import seconds as parsed
    from genepool.study import begin_study, findings, lines, read_plan, run_study
    from genepool.study.report import write_report

    if plan is None:
        click.echo(_shipped())
        return
    if data is not None and Path(data).exists():
        data = str(Path(data).resolve())  # workers may run in another folder
    changes = {"data.source": data, "budget.flops": flops, "budget.time": parsed(seconds) if seconds else None}
    chosen = _narrowed(read_plan(plan, scale), repeats, only, {name: v for name, v in changes.items() if v is not None})
    folder = out or Path("studies") / (Path(plan).stem + ("" if scale == "laptop" else f"-{scale}"))
    begin_study(chosen, folder)
    click.echo(_announced(chosen), err=True)
    outcomes = run_study(chosen, folder, data_dir=data_dir, device=device, look=_Teller())
    written = write_report(folder)
    found = lines(outcomes)
    if as_json:
        click.echo(json_text(found))
        return
    said = "\n".join(f"{what}: {value}" for what, value in findings(chosen.statistics, outcomes))
    click.echo(f"{_page(found)}\n\n{said}\n\nreport  {written}")


def _announced(plan: StudyPlan) -> str:
    """What is about to be done, and how it will be judged."""
    from genepool.study.statistics import description

    data = plan.settings_of(next(iter(plan.arms)), 1).data.source
    judged = "\n".join(f"  {name}: {description(name)}" for name in plan.statistics)
    return (
        f"{plan.about}\n{len(plan.arms)} arms, {plan.repeats} repeats, scale {plan.scale}, data {data}\n"
        f"Statistics, decided now:\n{judged}"
    )


def _narrowed(plan: StudyPlan, repeats: int | None, only: tuple[str, ...], changes: dict[str, Any]) -> StudyPlan:
    """The plan with what the command line says."""
    import msgspec

    from genepool.errors import SettingsError
    from genepool.registry import nearest

    for arm in only:
        if arm not in plan.arms:
            raise SettingsError(f"The plan has no arm '{arm}'; {nearest(arm, list(plan.arms))}")
    settings = {**plan.settings, **changes}
    if "budget.time" in changes and "budget.flops" not in changes:
        settings.pop("budget.flops", None)
    if "budget.flops" in changes and "budget.time" not in changes:
        settings["budget.time"] = None
    return msgspec.structs.replace(
        plan,
        repeats=repeats or plan.repeats,
        arms={arm: plan.arms[arm] for arm in only} if only else plan.arms,
        settings=settings,
    )


class _Teller:
    """A line now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, place: str, experiment: Experiment) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        from genepool.cli.text import amount, percent, span

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
    from genepool.cli.text import amount, percent, table

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
    header = [
        "arm",
        "repeats",
        "validation",
        "test",
        "2 s.e.",
        "individuals",
        "spent",
        "parameters",
        "in the best's line",
    ]
    return table(header, rows)
