"""`genepool export` and `ensemble`: trained models as files."""

from pathlib import Path
from typing import Any

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DIRECTORY, FORCE, FORMAT, JSON, PATH, PLUGIN, json_text
from genepool.cli.text import percent, table


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
    from genepool.data import prepare
    from genepool.experiment import Experiment, model_to_export
    from genepool.export import check_target, write_model

    experiment = Experiment.open(directory)
    target = check_target(experiment.path.resolve().name, name, **place)
    with download_progress() as progress:
        data = prepare(experiment.source(data_dir, progress))
    model = model_to_export(experiment, experiment.history(), identities, data)
    written = write_model(model, data, name=name, target=target)
    if as_json:
        click.echo(json_text(written))
        return
    tested = "not measured" if written.test_accuracy is None else percent(written.test_accuracy)
    same = f"same answers as the original on {written.checked_images:,} validation images"
    click.echo(f"written              {written.path}")
    click.echo(f"network              {', '.join(written.ids)}, {written.parameters:,} parameters")
    click.echo(f"validation accuracy  {percent(written.validation_accuracy)}")
    click.echo(f"test accuracy        {tested}")
    click.echo(f"checked              {same} (probabilities within {written.largest_difference:.1g})")


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
    from genepool.data import prepare
    from genepool.experiment import Experiment, check_same_data, make_ensemble
    from genepool.export import check_target

    experiments = [Experiment.open(directory) for directory in directories]
    check_same_data(experiments)
    target = check_target("ensemble", name, **place)
    with download_progress() as progress:
        source = experiments[0].source(data_dir, progress)
    made = make_ensemble(experiments, top=top, source=source, data=prepare(source), name=name, target=target)
    if as_json:
        click.echo(json_text(made))
        return
    rows = [[m.experiment, m.id, percent(m.validation_accuracy), percent(m.test_accuracy)] for m in made.members]
    rows.append(["majority vote", "", "", percent(made.vote_test_accuracy)])
    average = [percent(made.average_validation_accuracy), percent(made.average_test_accuracy)]
    rows.append(["averaged probabilities", "", *average])
    click.echo(table(["experiment", "individual", "validation", "test"], rows, left=2))
    click.echo(f"\nwritten  {made.path}")
