"""`genepool predict`: classify images with a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, JSON, PLUGIN, json_text
from genepool.cli.text import percent

if TYPE_CHECKING:
    from genepool.export import Prediction, TrainedModel


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--top", default=3, show_default=True, type=click.IntRange(1), help="Classes to print per image.")
@DATA_DIR
@PLUGIN
@JSON
def predict(model: Path, images: tuple[Path, ...], top: int, data_dir: Path | None, as_json: bool) -> None:
    """Print the most probable classes of each IMAGE, a file or a folder, by an exported MODEL or an experiment.

    If an image cannot be read, an error is printed for it, the others are classified, and the exit code is 1.
    """
    from genepool.export import image_files

    found = _model(model, data_dir).predict_files(image_files(images), top)
    sys.exit(1 if (_as_json if as_json else _as_text)(found) else 0)


def _model(path: Path, data_dir: Path | None) -> TrainedModel:
    if os.path.exists(path / "experiment.json"):  # noqa: PTH110 - pathlib's raises on names that are too long
        from genepool.experiment import Experiment

        with download_progress() as progress:
            return Experiment.open(path).model(data_dir=data_dir, progress=progress)

    from genepool.export import TrainedModel

    return TrainedModel.load(path)


def _as_text(found: Iterable[Prediction]) -> int:
    """Print a line per image as soon as it is known; return the number of images that could not be read."""
    from genepool.errors import shown

    bad = 0
    for prediction in found:
        if prediction.error is not None:
            click.echo(f"Error: {prediction.error}", err=True)
            bad += 1
            continue
        guesses = ", ".join(f"{shown(guess.label)} {percent(guess.probability)}" for guess in prediction.guesses)
        click.echo(f"{shown(prediction.image)}: {guesses}")
    return bad


def _as_json(found: Iterable[Prediction]) -> int:
    known = list(found)
    bad = [prediction.error for prediction in known if prediction.error is not None]
    for error in bad:
        click.echo(f"Error: {error}", err=True)
    click.echo(json_text(known))
    return len(bad)
