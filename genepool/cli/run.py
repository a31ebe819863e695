"""`genepool run`: evolve on this machine or on a Ray cluster, in a new or an existing experiment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.cli import options
from genepool.cli.best import page
from genepool.cli.dashboard import beside
from genepool.cli.data import download_progress

if TYPE_CHECKING:
    from genepool.experiment import Experiment
    from genepool.workers import RayOptions, WorkerPool

INTERRUPTED = 130  # the exit code that shells use for an end by Ctrl-C


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `genepool run` that are neither settings nor part of the experiment."""

    device: str
    memory: str | None
    plugins: tuple[str, ...]
    ray: RayOptions | None
    track: tuple[str, ...]
    dashboard: bool
    as_json: bool


@click.command()
@click.argument("directory", metavar="[DIR]", default="runs/default", type=options.PATH)
@click.option("--data", "data__source", help="Data set, folder of images or .npz file.  [default: the preset's]")
@options.DATA_DIR
@options.SIZE
@click.option("--flip/--no-flip", "data__flip", default=None, help="Also train on mirror images.  [default: flip]")
@click.option(
    "--preset", help="laptop, finetune, faithful, lab or paper.  [default: laptop; finetune for a pretrained --start]"
)
@click.option("--config", type=options.FILE, help="A TOML file of settings.")
@click.option("--population", "population__size", type=int, help="Individuals to keep.")
@click.option("--workers", "workers__count", type=int, help="Number of workers.  [default: by workers.rule]")
@click.option("--steps", "training__steps", type=int, help="Training steps per individual.")
@click.option("--time", "budget__time", help="Budget: time, like 90s, 10m or 2h, or none.")
@click.option("--individuals", "budget__individuals", type=int, help="Budget: individuals trained.")
@click.option("--flops", "budget__flops", type=float, help="Budget: FLOPs spent on training, like 1e15.")
@click.option("--target", "budget__target", type=float, help="Budget: stop when this fitness is reached, like 0.9.")
@click.option("--plateau", "budget__plateau", type=int, help="Budget: individuals in a row without a new best.")
@click.option("--objective", "objective__kind", help="Fitness: accuracy or accuracy-per-flops.  [default: accuracy]")
@click.option("--max-parameters", "limits__parameters", type=int, help="The most parameters a network may have.")
@click.option("--max-flops", "limits__flops", type=float, help="The most FLOPs a network may need per image.")
@click.option("--max-milliseconds", "limits__milliseconds", type=float, help="The most milliseconds per image.")
@click.option("--seed", "experiment__seed", type=int, help="Seed of all random numbers.  [default: 0]")
@click.option("--start", metavar="MODEL|DNA.json|NAME", help="Start from this network instead of the trivial one.")
@click.option("--accept-images", is_flag=True, help="Continue although images were added, changed or removed.")
@options.ray_options
@options.SET
@options.DEVICE
@options.MEMORY
@options.plugin_option(passed_on=True)
@click.option("--track", multiple=True, metavar="NAME", help="Send metrics to tensorboard or mlflow; may be repeated.")
@click.option("--dashboard", is_flag=True, help="Serve a live page during the run.")
@options.JSON
def run(**given: Any) -> None:
    """Evolve a population in DIR: start a new experiment, or continue the one that is there.

    Budgets count from the beginning of the experiment: to continue after the end, give a larger one. Ctrl-C loses
    nothing; unfinished trainings continue from their checkpoints next time.
    """
    from genepool.experiment import ExperimentRequest, Tracking, best_network, open_experiment
    from genepool.settings import size

    asked, rest = options.split(RunOptions, given)
    request, changes = options.split(ExperimentRequest, rest)
    request = msgspec.structs.replace(request, changes=options.settings_of(changes))
    with download_progress() as progress:
        # The nodes of a Ray cluster prepare the images themselves.
        experiment, source, note = open_experiment(request, prepare=asked.ray is None, progress=progress)
    if note:
        click.echo(note, err=True)
    if (over := experiment.status().over) is not None:
        click.echo(f"Nothing is left to do: {over}. To continue, give a larger budget.", err=True)
    memory = size(asked.memory) if asked.memory else None
    pool = experiment.pool(
        device=asked.device, data_dir=rest["data_dir"], memory=memory, plugins=asked.plugins, ray=asked.ray
    )
    try:
        with pool, beside(experiment.path) if asked.dashboard else nullcontext():
            tracking = Tracking(experiment, asked.track)
            completed = _evolve(experiment, pool, tracking.look)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if not completed and experiment.history().best() is None:
        tracking.end()
        click.echo("No individual is alive yet; run the same command to continue.", err=True)
        sys.exit(INTERRUPTED)
    found, figure = best_network(experiment, source=lambda: source, device=asked.device), _draw(experiment)
    accuracies = {"validation_accuracy": found.validation_accuracy, "test_accuracy": found.test_accuracy or 0.0}
    tracking.end(Path(found.weights).parent, **accuracies)
    click.echo(options.json_text(found) if asked.as_json else page(found, figure))


def _evolve(experiment: Experiment, pool: WorkerPool, also: Callable[[], None]) -> bool:
    """Show the workers' progress; return whether they spent the budget, rather than being stopped."""
    from genepool.cli.live import live_view

    with live_view(experiment) as look:

        def look_on() -> None:
            look(pool)
            also()

        try:
            pool.work(look_on)
        except KeyboardInterrupt:
            look(pool, "Stopping: trainings are handed over. Ctrl-C again ends at once; nothing finished is lost.")
            pool.stop()
            return False
    return True


def _draw(experiment: Experiment) -> Path:
    from genepool.experiment import annotations_of
    from genepool.settings import rules_label
    from genepool.study.plots.experiment import draw_progress

    figure, history = experiment.path / "progress.png", experiment.history()
    notes, label = annotations_of(experiment, history), rules_label(experiment.settings(1))
    draw_progress(history.finished(), figure, notes, label)
    return figure
