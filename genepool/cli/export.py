"""`genepool export` and `ensemble`: trained models as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DIRECTORY, FORCE, FORMAT, JSON, PATH, PLUGIN, json_text
from genepool.cli.text import percent, table
from genepool.errors import DataError

if TYPE_CHECKING:
    from genepool.data import Dataset
    from genepool.experiment import Experiment


@click.command()
@DIRECTORY
@click.argument("identities", metavar="[ID]...", nargs=-1)
@FORMAT
@click.option("--out", type=PATH, help="File or folder to write.  [default: named after DIR]")
@FORCE
@DATA_DIR
@PLUGIN
@JSON
def export(
    directory: Path, identities: tuple[str, ...], name: str, data_dir: Path | None, as_json: bool, **place: Any
) -> None:
    """Export the best network of DIR, or the individual ID (a unique part is enough), for use without Genepool.

    Several IDs make an ensemble that averages probabilities. Formats: torch, a program (.pt2) that needs only torch;
    onnx, for onnxruntime and others; source, a folder with readable Python, weights and a model card. All take images
    as bytes (n, height, width, channels) and return probabilities. Before the command succeeds, the exported model has
    given the same answers as the original on every validation image.
    """
    from genepool.experiment import Experiment, model_to_export
    from genepool.export import check_target, write_model

    experiment = Experiment.open(directory)
    target = check_target(experiment.path.resolve().name, name, **place)
    data, absent = _images(experiment, data_dir, is_one=len(identities) < 2)
    model = model_to_export(experiment, experiment.history(), identities, data)
    written = msgspec.structs.replace(write_model(model, data, name=name, target=target), without_images=absent)
    if as_json:
        click.echo(json_text(written))
        return
    tested = "not measured" if written.test_accuracy is None else percent(written.test_accuracy)
    kind = "validation images" if absent is None else "images of noise"
    same = f"same answers as the original on {written.checked_images:,} {kind}"
    click.echo(f"written              {written.path}")
    click.echo(f"network              {', '.join(written.ids)}, {written.parameters:,} parameters")
    click.echo(f"validation accuracy  {percent(written.validation_accuracy)}")
    click.echo(f"test accuracy        {tested}")
    click.echo(f"checked              {same} (probabilities within {written.largest_difference:.1g})")
    if absent is not None:
        click.echo(f"Not checked on the validation images. {absent}", err=True)


def _images(experiment: "Experiment", data_dir: Path | None, is_one: bool) -> "tuple[Dataset, str | None]":
    """The images to compare answers on; noise, and the reason, if those of the experiment are gone or have changed."""
    try:
        with download_progress() as progress:
            return experiment.prepared(experiment.source(data_dir, progress)), None
    except DataError as error:
        known = experiment.recorded_images()
        if known is None or not is_one:  # the accuracy of an ensemble is not recorded
            raise
        return known.noise(), str(error)


@click.command()
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=PATH)
@click.option("--top", default=2, show_default=True, type=click.IntRange(1), help="Networks per experiment.")
@FORMAT
@click.option("--out", type=PATH, help="File or folder to write.  [default: ensemble.pt2]")
@FORCE
@DATA_DIR
@PLUGIN
@JSON
def ensemble(
    directories: tuple[Path, ...], top: int, name: str, data_dir: Path | None, as_json: bool, **place: Any
) -> None:
    """Combine the fittest networks of each experiment DIR into one model.

    Prints the test accuracy of each network, of their majority vote and of their averaged probabilities. The exported
    model averages; nothing is trained further.
    """
    from genepool.experiment import Experiment, check_same_data, make_ensemble
    from genepool.export import check_target

    experiments = [Experiment.open(directory) for directory in directories]
    check_same_data(experiments)
    target = check_target("ensemble", name, **place)
    with download_progress() as progress:
        source = experiments[0].source(data_dir, progress)
    data = experiments[0].prepared(source)
    made = make_ensemble(experiments, top=top, source=source, data=data, name=name, target=target)
    if as_json:
        click.echo(json_text(made))
        return
    rows = [[m.experiment, m.id, percent(m.validation_accuracy), percent(m.test_accuracy)] for m in made.members]
    rows.append(["majority vote", "", "", percent(made.vote_test_accuracy)])
    average = [percent(made.average_validation_accuracy), percent(made.average_test_accuracy)]
    rows.append(["averaged probabilities", "", *average])
    click.echo(table(["experiment", "individual", "validation", "test"], rows, left=2))
    click.echo(f"\nwritten  {made.path}")
