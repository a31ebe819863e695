"""`genepool import` and `predict`: a model from a file, as a beginning or to classify images."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, FILE, FORCE, JSON, PATH, PLUGIN, json_text
from genepool.cli.text import percent
from genepool.errors import DataError, SettingsError, shown

if TYPE_CHECKING:
    from genepool.dna import DNA, Shape
    from genepool.export import ForeignModel, TrainedModel


@click.command("import")
@click.argument("model", type=PATH)
@click.option("--out", required=True, type=FILE, help="DNA file to write: X.json.")
@click.option("--member", type=click.IntRange(1), help="Number of the network in an ensemble.")
@click.option(
    "--size", metavar="HEIGHTxWIDTH", help="Size of images if a network from elsewhere takes any.  [default: 224x224]"
)
@click.option("--architecture", metavar="NAME", help="Network of a state dict.  [default: recognised by its tensors]")
@FORCE
@PLUGIN
def import_(model: Path, out: Path, force: bool, **options: Any) -> None:
    """Write the DNA of MODEL to X.json and its weights to X.safetensors.

    MODEL is an export of Genepool (.pt2, .onnx or a source folder) or an image classifier from elsewhere: an ONNX file,
    a torch.export program (.pt2), or a state dict in safetensors of resnet-18, -34, -50 or efficientnet-lite0. The
    network from elsewhere must give the same answers as its DNA on images of noise. No code in a file is run.
    """
    from genepool.data import require_writable, save_file
    from genepool.dna import codec

    if out.suffix != ".json":
        raise DataError(f"The name '{shown(out)}' must end in .json; the weights go beside it.")
    weights = out.with_suffix(".safetensors")
    for path in (out, weights):
        require_writable(path)
        if path.exists() and not force:
            raise DataError(f"'{shown(path)}' already exists; choose another name with --out or add --force.")
    found = _imported(model, **options)
    save_file(weights, found.weights, "weights")
    save_file(out, codec.encode(found.dna).encode() + b"\n", "DNA")
    click.echo(f"network  {found.dna.in_a_line()}")
    click.echo(f"images   {'x'.join(map(str, found.image))}, {found.classes} classes")
    for line in found.remarks:
        click.echo(line)
    click.echo(f"DNA      {out}")
    click.echo(f"weights  {weights}")


class _Imported(NamedTuple):
    dna: DNA
    weights: bytes
    image: Shape
    classes: int
    remarks: tuple[str, ...] = ()


def _imported(model: Path, member: int | None, size: str | None, architecture: str | None) -> _Imported:
    from genepool.experiment import from_model
    from genepool.export import is_foreign, read_foreign
    from genepool.nn import to_bytes

    if not is_foreign(model):
        if size is not None or architecture is not None:
            raise SettingsError("--size and --architecture are for networks from elsewhere, which this file is not.")
        start = from_model(model, member)
        assert start.weights is not None and start.image is not None, "models have both"
        return _Imported(start.dna, start.weights, start.image, len(start.classes))
    if member is not None:
        raise SettingsError("--member is for ensembles that Genepool exported, which this file is not.")
    found = read_foreign(model, architecture=architecture, image=_image(size))
    remarks = (
        f"pixels   {_pixels(found)}",
        f"checked  same answers as the original on noise (probabilities within {found.largest_difference:.1g})",
    )
    return _Imported(found.dna, to_bytes(found.tensors), found.image, found.classes, remarks)


def _image(size: str | None) -> Shape | None:
    from genepool.dna import Shape

    if size is None:
        return None
    height, _, width = size.partition("x")
    if not (height.isdecimal() and width.isdecimal()) or not (0 < int(height[:9]) < 10**5 > int(width[:9]) > 0):
        raise SettingsError(f"--size is '{size[:40]}' but must be height x width, like 224x224.")
    return Shape(int(height), int(width), 3)


def _pixels(model: ForeignModel) -> str:
    """How images are normalised, and where that is known from."""
    if model.mean is None or model.std is None:
        return "the file does not say how they are normalised; set data.mean and data.std"
    mean, std = (", ".join(f"{number:.4g}" for number in numbers) for numbers in (model.mean, model.std))
    origin = "in the file" if model.architecture is None else f"usual for {model.architecture}"
    return f"minus {mean}, divided by {std} ({origin})"


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
