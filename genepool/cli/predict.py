"""`genepool predict`: classify images with a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, JSON, PATH, PLUGIN, json_text
from genepool.cli.text import percent
from genepool.errors import shown

if TYPE_CHECKING:
    from genepool.export import TrainedModel


@click.command()
@click.argument("model", type=PATH)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True, type=PATH)
@click.option("--top", default=3, show_default=True, type=click.IntRange(1), help="Classes to print per image.")
@DATA_DIR
@PLUGIN
@JSON
def predict(model: Path, images: tuple[Path, ...], top: int, data_dir: Path | None, as_json: bool) -> None:
    """Print the most probable classes of each IMAGE, a file or a folder, by an exported MODEL or an experiment.

    If an image cannot be read, an error is printed for it, the others are classified, and the exit code is 1.
    """
    from genepool.export import image_files

    found = []
    for prediction in _model(model, data_dir).predict_files(image_files(images), top):
        found.append(prediction)
        if prediction.error is not None:
            click.echo(f"Error: {prediction.error}", err=True)
        elif not as_json:
            guesses = ", ".join(f"{shown(guess.label)} {percent(guess.probability)}" for guess in prediction.guesses)
            click.echo(f"{shown(prediction.image)}: {guesses}")
    if as_json:
        click.echo(json_text(found))
    sys.exit(1 if any(prediction.error is not None for prediction in found) else 0)


def _model(path: Path, data_dir: Path | None) -> TrainedModel:
    if os.path.exists(path / "experiment.json"):  # noqa: PTH110 - pathlib's raises on names that are too long
        from genepool.experiment import Experiment

        with download_progress() as progress:
            return Experiment.open(path).model(data_dir=data_dir, progress=progress)

    from genepool.export import TrainedModel

    return TrainedModel.load(path)
