"""`genepool study`: run a plan of experiments and report on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.cli import options as shared
from genepool.cli.estimate import estimate_text
from genepool.cli.study_text import announcement, page, progress_view, shipped

if TYPE_CHECKING:
    from genepool.study import StudyPlan, StudyRun
    from genepool.workers import RayOptions


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that choose a plan, or change it."""

    out: Path | None
    scale: str
    preset: str | None
    estimate: bool
    flops_per_second: float | None
    repeats: int | None
    only: tuple[str, ...]
    assignments: tuple[str, ...]


class DriverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that say how this process runs it."""

    parallel: int
    workers: int | None
    memory: str | None
    data_dir: Path | None
    device: str
    plugins: tuple[str, ...]
    ray: RayOptions | None

    def run(self) -> StudyRun:
        from genepool.settings import size
        from genepool.study import StudyRun

        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return StudyRun(**{**fields, "memory": size(self.memory) if self.memory else None})


@click.command()
@click.argument("plan", metavar="[PLAN|FOLDER]", required=False)
@click.option("--out", type=shared.FOLDER, help="Folder to write.  [default: studies/PLAN]")
@click.option("--scale", default="laptop", show_default=True, help="The plan's scale: laptop, lab or paper.")
@click.option("--preset", help="Rules: paper, lab, faithful or laptop.  [default: the plan's]")
@click.option("--estimate", is_flag=True, help="Print what the study would take, and run nothing.")
@click.option("--flops-per-second", type=click.FloatRange(0, min_open=True), help="For --estimate: a worker's speed.")
@click.option("--data", "data__source", help="Data set, folder of images or .npz file.  [default: the plan's]")
@shared.SET
@click.option("--repeats", type=click.IntRange(1), help="Experiments per arm.  [default: the plan's]")
@click.option("--only", multiple=True, metavar="ARM", help="Run only this arm; may be repeated.")
@click.option("--flops", "budget__flops", type=float, help="Budget in FLOPs, like 1e15.  [default: the plan's]")
@click.option("--time", "budget__time", help="Budget in time, like 90s, 10m or 2h, or none.  [default: the plan's]")
@click.option("--parallel", type=click.IntRange(1), default=1, show_default=True, help="Experiments at the same time.")
@click.option("--workers", type=click.IntRange(1), help="The most workers per experiment.  [default: the settings']")
@shared.ray_options
@shared.MEMORY
@shared.DATA_DIR
@shared.DEVICE
@shared.plugin_option(passed_on=True)
@click.option("--exit-code-on-stop", default=130, hidden=True, help="Exit code after Ctrl-C or SIGTERM.")
@shared.JSON
def study(plan: str | None, exit_code_on_stop: int, as_json: bool, **given: Any) -> None:
    """Run the experiments of PLAN, a shipped one or your own .toml file, or continue the study in FOLDER.

    Without a PLAN the shipped ones are listed. The best network of each experiment is chosen by validation accuracy;
    its test accuracy is reported, with the statistics that the plan named before anything ran. Started again, a study
    continues; started on several machines that share the folder, they run it together.
    """
    from genepool.study import begin_study, findings, lines, run_study
    from genepool.study.report import write_report

    if plan is None:
        click.echo(shipped())
        return
    options, rest = shared.split(PlanOptions, given)
    driver, settings = shared.split(DriverOptions, rest)
    chosen, folder = _chosen(plan, options, settings)
    if options.estimate:
        click.echo(estimate_text(chosen, options.flops_per_second, driver.device, as_json))
        return
    begin_study(chosen, folder)
    click.echo(announcement(chosen), err=True)
    try:
        with progress_view() as look:
            outcomes = run_study(chosen, folder, driver.run(), look)
    except KeyboardInterrupt:
        click.echo("Stopped: trainings are handed over. The same command continues.", err=True)
        sys.exit(exit_code_on_stop)
    report = write_report(folder)
    if as_json:
        click.echo(shared.json_text(lines(outcomes)))
        return
    results = "\n".join(f"{what}: {value}" for what, value in findings(chosen.statistics, outcomes))
    click.echo(f"{page(lines(outcomes))}\n\n{results}\n\nreport  {report}")


def _chosen(plan: str, options: PlanOptions, settings: dict[str, Any]) -> tuple[StudyPlan, Path]:
    """The plan with the user's changes, and the folder of the study."""
    from genepool.study import PLAN, narrowed, read_plan, read_study

    if (Path(plan) / PLAN).exists():
        chosen, folder = read_study(Path(plan))[0], options.out or Path(plan)
    else:
        chosen = read_plan(plan, options.scale)
        parts = [Path(plan).stem, "" if options.scale == "laptop" else options.scale, options.preset or ""]
        folder = options.out or Path("studies") / "-".join(filter(None, parts))
    chosen = msgspec.structs.replace(chosen, preset=options.preset or chosen.preset)
    changes = {**_assigned(chosen, options.assignments), **_changes(settings)}
    return narrowed(chosen, repeats=options.repeats, arms=options.only, changes=changes), folder


def _assigned(plan: StudyPlan, assignments: tuple[str, ...]) -> dict[str, Any]:
    """The values of --set by name, as the settings' types."""
    from genepool.settings import by_name, override, preset

    names = sorted({".".join(text.partition("=")[0].split(".")[:2]) for text in assignments})  # odds are one setting
    found = by_name(override(preset(plan.preset), assignments))
    return {name: found[name] for name in names}


def _changes(settings: dict[str, Any]) -> dict[str, Any]:
    from genepool.settings import seconds

    changes = shared.settings_of(settings)
    if changes.get("budget.time", "none") != "none":
        changes["budget.time"] = seconds(changes["budget.time"])
    if "data.source" in changes and Path(changes["data.source"]).exists():
        changes["data.source"] = str(Path(changes["data.source"]).resolve())  # workers may run in another folder
    return changes
