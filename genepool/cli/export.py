"""`genepool export`: a trained model to take away."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DIRECTORY, FORCE, FORMAT, JSON, PLUGIN, json_text
from genepool.cli.text import percent


@click.command()
@DIRECTORY
@click.argument("identities", metavar="[ID]...", nargs=-1)
@FORMAT
@click.option("--out", type=click.Path(path_type=Path), help="File or folder to write.  [default: named after DIR]")
@FORCE
@DATA_DIR
@PLUGIN
@JSON
def export(
    directory: Path,
    identities: tuple[str, ...],
    name: str,
    out: Path | None,
    force: bool,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Writes the best network of DIR, or the individual ID (or enough of its ID), for use without Genepool.

    Several IDs make an ensemble, whose probabilities are averaged. torch: a program (.pt2) that needs torch alone;
    onnx: for onnxruntime and others; source: a folder with readable Python, weights and a model card. All take images
    as bytes (n, height, width, channels) and give probabilities; what is written has answered like the original on
    every validation image.
    """
    from genepool.data import prepare
    from genepool.experiment import Experiment, model_to_export
    from genepool.export import check_target, write_model

    experiment = Experiment.open(directory)
    target = check_target(experiment.path.resolve().name, name, out, force)
    with download_progress() as progress:
        data = prepare(experiment.source(data_dir, progress))
    model = model_to_export(experiment, experiment.history(), identities, data)
    written = write_model(model, data, name=name, target=target)
    if as_json:
        click.echo(json_text(written))
        return
    tested = "not measured" if written.test_accuracy is None else percent(written.test_accuracy)
    click.echo(f"written              {written.path}")
    click.echo(f"network              {', '.join(written.ids)}, {written.parameters:,} parameters")
    click.echo(f"validation accuracy  {percent(written.validation_accuracy)}")
    click.echo(f"test accuracy        {tested}")
    click.echo(
        f"checked              answers like the original on {written.checked_images:,} validation images "
        f"(probabilities within {written.largest_difference:.1g})"
    )
