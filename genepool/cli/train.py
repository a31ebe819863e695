"""`genepool train`: one network, from a DNA to its fitness."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, JSON, PLUGIN, SET, SIZE, THREADS
from genepool.cli.text import amount, percent
from genepool.evaluation import Evaluation, Observer, Progress, TrainingRequest


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--data", default="fashion-mini", show_default=True, help="Data set, folder of images or .npz file.")
@DATA_DIR
@SIZE
@click.option("--steps", type=click.IntRange(0), help="Training steps.  [default: the preset's]")
@click.option(
    "--parent", type=click.Path(path_type=Path, dir_okay=False), help="A parent's weights, inherited where they fit."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the trained weights here.")
@click.option("--seed", default=0, show_default=True, help="Of the weights and the batches.")
@click.option("--preset", default="paper", show_default=True, help="laptop, faithful or paper.")
@SET
@DEVICE
@THREADS
@PLUGIN
@JSON
def train(
    file: Path,
    data: str,
    data_dir: Path | None,
    size: str | None,
    steps: int | None,
    parent: Path | None,
    out: Path | None,
    seed: int,
    preset: str,
    assignments: tuple[str, ...],
    device: str,
    threads: int,
    as_json: bool,
) -> None:
    """Trains the network whose DNA is in FILE and prints its fitness and its cost."""
    from genepool import settings as presets
    from genepool.dna import codec

    dna = codec.read(file)
    settings = presets.override(presets.preset(preset), assignments)
    given = {"data.source": data, "data.size": size, "training.steps": steps}
    settings = presets.changed(settings, {name: value for name, value in given.items() if value is not None})

    import msgspec

    from genepool.data.dataset import prepare
    from genepool.data.paths import require_writable, save_file
    from genepool.nn import TorchEvaluator, choose_device, prepare_process, read_weights

    if out is not None:
        require_writable(out)
    prepare_process(threads)
    where = choose_device(device)
    with download_progress() as fetched:
        source = settings.data.open(data_dir, fetched)
    images = prepare(source)
    inherited = (read_weights(parent),) if parent is not None else ()
    evaluator = TorchEvaluator(images, settings.training, settings.limits, where, settings.objective)
    with _progress(settings.training.steps) as observe:
        evaluation, weights = evaluator.evaluate(TrainingRequest(dna, seed=seed, inherited=inherited), observe)
    if out is not None and weights is not None:
        save_file(out, weights, "weights")
    click.echo(msgspec.json.encode(evaluation).decode() if as_json else _page(evaluation, out))


@contextmanager
def _progress(steps: int) -> Iterator[Observer]:
    """A bar on a terminal; elsewhere a line now and then. Both on standard error, so that results can be piped."""
    if not sys.stderr.isatty():
        yield _lines(steps)
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps, loss=float("nan"))
        yield lambda progress: bar.update(task, completed=progress.step, loss=progress.loss)


def _lines(steps: int) -> Observer:
    """About ten lines in all."""
    due = steps // 10

    def line(progress: Progress) -> None:
        nonlocal due
        if progress.step >= due or progress.step == steps:
            click.echo(f"step {progress.step} of {steps}, loss {progress.loss:.4f}", err=True)
            due = progress.step + steps // 10

    return line


def _page(evaluation: Evaluation, out: Path | None) -> str:
    lines = [
        f"accuracy     {percent(evaluation.accuracy or 0.0)} of the validation images",
        *([f"fitness      {evaluation.fitness:.4f}"] if evaluation.fitness != evaluation.accuracy else []),
        f"parameters   {evaluation.parameters:,}",
        f"cost         {amount(evaluation.flops)}FLOP for {evaluation.steps} steps and the validation, "
        f"{evaluation.seconds:.1f} s",
        f"weights      {len(evaluation.inherited)} tensors inherited, {len(evaluation.fresh)} fresh",
    ]
    if evaluation.reason is not None:
        lines.append(f"not trained  {evaluation.reason}")
    elif out is not None:
        lines.append(f"saved        {out}")
    return "\n".join(lines)
