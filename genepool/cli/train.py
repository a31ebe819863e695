"""`genepool train`: train one network and print its fitness."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, FILE, JSON, PATH, PLUGIN, SET, SIZE, THREADS, settings_of, split
from genepool.cli.text import amount, percent
from genepool.evaluation import Evaluation, Observer, Progress, TrainingRequest


class TrainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that are not settings."""

    file: Path
    data_dir: Path | None
    parent: Path | None
    out: Path | None
    seed: int
    preset: str
    assignments: tuple[str, ...]
    device: str
    threads: int
    as_json: bool


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--data", "data__source", default="fashion-mini", show_default=True, help="Data set, folder or .npz file."
)
@DATA_DIR
@SIZE
@click.option("--steps", "training__steps", type=click.IntRange(0), help="Training steps.  [default: the preset's]")
@click.option("--parent", type=FILE, help="Weights of a parent, inherited where they fit.")
@click.option("--out", type=FILE, help="Write the trained weights here.")
@click.option("--seed", default=0, show_default=True, help="Seed of the weights and the batches.")
@click.option("--preset", default="paper", show_default=True, help="laptop, faithful, lab or paper.")
@SET
@DEVICE
@THREADS
@PLUGIN
@JSON
def train(**given: Any) -> None:
    """Train the network whose DNA is in FILE; print its fitness and what the training took."""
    from genepool import settings as names
    from genepool.data import prepare, require_writable, save_file
    from genepool.dna import codec
    from genepool.nn import TorchEvaluator, choose_device, prepare_process, read_weights

    options, changes = split(TrainOptions, given)
    dna = codec.read(options.file)
    settings = names.override(names.preset(options.preset), options.assignments)
    settings = names.changed(settings, settings_of(changes))
    if options.out is not None:
        require_writable(options.out)
    prepare_process(options.threads)
    where = choose_device(options.device)
    with download_progress() as progress:
        images = prepare(settings.data.open(options.data_dir, progress))
    inherited = (read_weights(options.parent),) if options.parent is not None else ()
    evaluator = TorchEvaluator(images, settings.training, settings.limits, where, settings.objective)
    request = TrainingRequest(dna, seed=options.seed, inherited=inherited)
    with _progress(settings.training.steps) as observe:
        evaluation, weights = evaluator.evaluate(request, observe)
    if options.out is not None and weights is not None:
        save_file(options.out, weights, "weights")
    click.echo(msgspec.json.encode(evaluation).decode() if options.as_json else _page(evaluation, options.out))


@contextmanager
def _progress(steps: int) -> Iterator[Observer]:
    """Show a bar on a terminal, otherwise occasional lines; on standard error, so that results can be piped."""
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
    """Print about ten lines in all."""
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
        f"training     {amount(evaluation.flops)}FLOP for {evaluation.steps} steps and validation, "
        f"{evaluation.seconds:.1f} s",
        f"weights      {len(evaluation.inherited)} tensors inherited, {len(evaluation.fresh)} fresh",
    ]
    if evaluation.reason is not None:
        lines.append(f"not trained  {evaluation.reason}")
    elif out is not None:
        lines.append(f"saved        {out}")
    return "\n".join(lines)
