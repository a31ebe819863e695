"""`genepool run`: an experiment on this machine or on a Ray cluster, from the beginning or from where it stopped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, JSON, MEMORY, SET, SIZE, json_text, memory_of_each, plugin_option
from genepool.cli.ray import RAY
from genepool.errors import SettingsError

if TYPE_CHECKING:
    from genepool.cli.live import Look
    from genepool.cli.ray import RayOptions
    from genepool.data import Source
    from genepool.experiment import Experiment
    from genepool.experiment.best import BestNetwork
    from genepool.experiment.start import Start
    from genepool.settings import Settings
    from genepool.workers.pool import WorkerPool

INTERRUPTED = 130
"""The exit code that shells know for an end by Ctrl-C."""


@click.command()
@click.argument("directory", metavar="[DIR]", default="runs/default", type=click.Path(path_type=Path))
@click.option("--data", help="Data set, folder of images or .npz file.  [default: the preset's; laptop: fashion-mini]")
@DATA_DIR
@SIZE
@click.option("--flip/--no-flip", default=None, help="Whether mirror images are examples too.  [default: they are]")
@click.option("--preset", help="laptop, faithful or paper.  [default: laptop]")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file of settings.")
@click.option("--population", type=int, help="Individuals to keep.")
@click.option("--workers", type=int, help="How many.  [default: the preset's; laptop: one a core]")
@click.option("--steps", type=int, help="Training steps of each individual.")
@click.option("--time", help="Budget: time, like 90s, 10m or 2h, or none.")
@click.option("--individuals", type=int, help="Budget: individuals trained.")
@click.option("--flops", type=float, help="Budget: FLOPs spent on training, like 1e15.")
@click.option("--target", type=float, help="Budget: end when this fitness is reached, like 0.9.")
@click.option("--plateau", type=int, help="Budget: end after so many individuals without a new best.")
@click.option("--objective", help="What fitness is: accuracy or accuracy-per-flops.  [default: accuracy]")
@click.option("--max-parameters", type=int, help="The most that a network may have.")
@click.option("--max-flops", type=float, help="The most that a network may need for one image, like 1e6.")
@click.option(
    "--max-milliseconds",
    type=float,
    help="The most that a network may take for one image, on the machine that trains it.",
)
@click.option("--seed", type=int, help="Of all random numbers but the names of individuals.  [default: 0]")
@click.option("--start", metavar="MODEL|DNA.json|NAME", help="Evolve on from this network, not from the trivial one.")
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="What runs the workers.",
)
@RAY
@SET
@DEVICE
@MEMORY
@plugin_option(shown_to_verb=True)
@click.option("--track", multiple=True, metavar="NAME", help="Send figures to tensorboard or mlflow; may be repeated.")
@click.option("--dashboard", is_flag=True, help="Serve a live page while it runs.")
@JSON
def run(
    directory: Path,
    data_dir: Path | None,
    preset: str | None,
    config: Path | None,
    start: str | None,
    assignments: tuple[str, ...],
    device: str,
    memory: str | None,
    plugins: tuple[str, ...],
    track: tuple[str, ...],
    dashboard: bool,
    as_json: bool,
    engine: str,
    ray: RayOptions,
    **options: Any,
) -> None:
    """Evolves a population in DIR, with a live view: a new experiment, or the one that is there.

    Budgets are totals of the experiment: to go on after the end, give a larger one. Ctrl-C loses nothing; what was in
    training goes on from its checkpoint next time.
    """
    from genepool.experiment.tracking import Tracking

    ray.refuse_without(engine)
    chosen = _settings(directory, preset, config, options, assignments)
    experiment = _prepared(directory, chosen, start, data_dir, engine)
    source = _images(experiment.settings(), data_dir, engine)
    if engine == "ray":
        pool = ray.pool(experiment, device=device, data_dir=data_dir, memory=memory, plugins=plugins)
    else:
        pool = _processes(experiment, device, data_dir, memory, plugins)
    with pool as start_pool, _page_beside(directory) if dashboard else nullcontext():
        tracking = Tracking(experiment, track)
        to_the_end = _evolve(experiment, start_pool, tracking.look)
    if not to_the_end and experiment.history().best() is None:
        tracking.end()
        click.echo("Nobody is alive yet; the same command goes on.", err=True)
        sys.exit(INTERRUPTED)

    from genepool.experiment.best import best_network

    found = best_network(experiment, source=source, device=device)
    picture = _drawn(experiment)
    tracking.end(
        Path(found.weights).parent,
        validation_accuracy=found.validation_accuracy,
        test_accuracy=found.test_accuracy or 0.0,
    )
    click.echo(json_text(found) if as_json else page(found, picture))


@contextmanager
def _page_beside(directory: Path) -> Iterator[None]:
    from genepool.cli.dashboard import beside

    with beside(directory) as address:
        click.echo(address, err=True)
        yield


def _settings(
    directory: Path, preset: str | None, config: Path | None, options: dict[str, Any], assignments: tuple[str, ...]
) -> Settings:
    """Those in force, or the preset's, with what the file and the command line change."""
    from genepool import settings as names
    from genepool.experiment import Experiment

    changes = _changes(config, options)
    if (directory / "experiment.json").exists():
        if preset is not None:
            raise SettingsError(f"'{directory}' exists and keeps its settings; leave --preset out, or use --set.")
        base = Experiment.open(directory).settings()
    else:
        base = names.preset(preset or "laptop")
    return names.override(names.changed(base, changes), assignments)


def _prepared(directory: Path, chosen: Settings, start: str | None, data_dir: Path | None, engine: str) -> Experiment:
    """The experiment, once it is sure that its images are there and that workers could do something with it."""
    if not (directory / "experiment.json").exists():
        _images(chosen, data_dir, engine)  # before a directory is made that nothing could be done with
    experiment = _experiment(directory, chosen, _start(start, chosen, data_dir) if start is not None else None)
    experiment.require_rules()
    return experiment


def _images(settings: Settings, data_dir: Path | None, engine: str) -> Source:
    """Opened, and for processes prepared: once, and not by all of them at the same time."""
    from genepool.data.dataset import prepare

    with download_progress() as progress:
        source = settings.data.open(data_dir, progress)
    if engine != "ray":  # whose nodes prepare their own
        prepare(source)
    return source


def _experiment(directory: Path, chosen: Settings, start: Start | None) -> Experiment:
    from genepool.experiment import Experiment
    from genepool.settings import differences

    if start is not None or not (directory / "experiment.json").exists():
        return Experiment.create(directory, chosen, start)
    experiment = Experiment.open(directory)
    experiment.set(differences(experiment.settings(), chosen))
    return experiment


def _start(text: str, chosen: Settings, data_dir: Path | None) -> Start:
    from genepool.data.dataset import prepare
    from genepool.experiment.start import find_start, require_fit

    with download_progress() as progress:
        data = prepare(chosen.data.open(data_dir, progress))
    start = find_start(text, data.channels)
    require_fit(start, data)
    return start


SETTINGS = {
    "data": "data.source",
    "size": "data.size",
    "flip": "data.flip",
    "population": "population.size",
    "workers": "workers.count",
    "steps": "training.steps",
    "time": "budget.time",
    "individuals": "budget.individuals",
    "flops": "budget.flops",
    "target": "budget.target",
    "plateau": "budget.plateau",
    "objective": "objective.kind",
    "max_parameters": "limits.parameters",
    "max_flops": "limits.flops",
    "max_milliseconds": "limits.milliseconds",
    "seed": "experiment.seed",
}
"""The setting that each option changes."""


def _changes(config: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """The settings in the file first, then those of the options."""
    from genepool import settings as names

    given = {SETTINGS[option]: value for option, value in options.items() if value is not None}
    if given.get("budget.time", "none") != "none":
        given["budget.time"] = names.seconds(given["budget.time"])
    if "training.steps" in given:  # the same number for every individual
        given = {"training_budget.share": None, "final_phase.share": 0.0, **given}
    if "data.source" in given and Path(given["data.source"]).exists():
        given["data.source"] = str(Path(given["data.source"]).resolve())  # workers may run in another folder
    return {**(names.flat(names.read_toml(config)) if config else {}), **given}


def _workers(experiment: Experiment, device: str) -> int:
    """As many as are asked for; otherwise some for each GPU, or one a core."""
    workers = experiment.settings().workers
    if workers.count or device == "cpu":
        return workers.count or os.cpu_count() or 1

    from genepool.nn import gpus

    return gpus(device) * workers.per_gpu or os.cpu_count() or 1


@contextmanager
def _processes(
    experiment: Experiment, device: str, data_dir: Path | None, memory: str | None, plugins: tuple[str, ...]
) -> Iterator[Callable[[], WorkerPool]]:
    from genepool.workers.local import LocalPool

    count = _workers(experiment, device)
    handed_on = {"--device": device, "--data-dir": data_dir, "--memory": memory_of_each(memory, count)}
    words = [str(word) for pair in handed_on.items() if pair[1] is not None for word in pair]
    words += [word for plugin in plugins for word in ("--plugin", plugin)]
    yield lambda: LocalPool(experiment.path, count, words)


def _evolve(experiment: Experiment, start: Callable[[], WorkerPool], also: Callable[[], None]) -> bool:
    """Whether the workers came to the end of the budget: they did not if somebody told them to stop."""
    from genepool.cli.live import live_view

    with live_view(experiment) as look:
        pool = start()
        told = _Told()
        try:
            pool.work(lambda: _look_on(look, told.check(pool), also))
        except KeyboardInterrupt:
            _stop(pool, look)
            return False
        except BaseException:
            pool.stop()
            raise
        return True


def _look_on(look: Look, pool: WorkerPool, also: Callable[[], None]) -> None:
    look(pool)
    also()


def _stop(pool: WorkerPool, look: Look) -> None:
    try:
        look(pool, "Stopping: trainings are handed over. Ctrl-C again ends at once, and loses nothing finished.")
        pool.stop()
    except KeyboardInterrupt:
        pool.end()
        sys.exit(INTERRUPTED)


class _Told:
    """Turns SIGTERM into what Ctrl-C does."""

    def __init__(self) -> None:
        self._told = False
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        self._told = True

    def check(self, pool: WorkerPool) -> WorkerPool:
        if self._told:
            raise KeyboardInterrupt
        return pool


def _drawn(experiment: Experiment) -> Path:
    from genepool.experiment.versions import annotations_of
    from genepool.study.plots.progress import draw_progress

    picture = experiment.path / "progress.png"
    history = experiment.history()
    draw_progress(history.finished(), picture, annotations_of(experiment, history))
    return picture


def _goals(found: BestNetwork) -> Iterator[str]:
    """What only counts where accuracy is not all."""
    from genepool.cli.text import amount

    if found.fitness != found.validation_accuracy:
        yield f"fitness              {found.fitness:.4f}, with {amount(found.flops_image)}FLOP an image"
    if found.milliseconds is not None:
        yield f"inference            {found.milliseconds:.3g} ms for one image"


def page(found: BestNetwork, picture: Path | None = None) -> str:
    """What is told of the best network."""
    from genepool.cli.text import amount, percent, span

    tested = "not measured" if found.test_accuracy is None else percent(found.test_accuracy)
    lines = [
        f"best network         {found.network}",
        f"validation accuracy  {percent(found.validation_accuracy)}",
        f"test accuracy        {tested}",
        f"parameters           {found.parameters:,}",
        *_goals(found),
        f"search               {amount(found.flops)}FLOP, {found.individuals} individuals, {span(found.seconds)}",
        f"model                {found.weights}",
    ]
    return "\n".join([*lines, *([f"figure               {picture}"] if picture else [])])
