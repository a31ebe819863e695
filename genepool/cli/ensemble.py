"""`genepool ensemble`: the best networks of several experiments as one model."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, FORCE, FORMAT, JSON, json_text
from genepool.cli.text import percent, table


@click.command()
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--top", default=2, show_default=True, type=click.IntRange(1), help="Networks of each experiment.")
@FORMAT
@click.option("--out", type=click.Path(path_type=Path), help="File or folder to write.  [default: ensemble.pt2]")
@FORCE
@DATA_DIR
@JSON
def ensemble(
    directories: tuple[Path, ...],
    top: int,
    name: str,
    out: Path | None,
    force: bool,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Takes the fittest networks of each experiment DIR and has them answer together.

    Test accuracies are told for each network, for their majority vote and for their averaged probabilities. The model
    that is written averages; nothing is trained any further.
    """
    from genepool.data import prepare
    from genepool.experiment import Experiment, check_same_data, make_ensemble
    from genepool.export import check_target

    experiments = [Experiment.open(directory) for directory in directories]
    check_same_data(experiments)
    target = check_target("ensemble", name, out, force)
    with download_progress() as progress:
        source = experiments[0].source(data_dir, progress)
    made = make_ensemble(experiments, top=top, source=source, data=prepare(source), name=name, target=target)
    if as_json:
        click.echo(json_text(made))
        return
    rows = [[m.experiment, m.id, percent(m.validation_accuracy), percent(m.test_accuracy)] for m in made.members]
    rows.append(["majority vote", "", "", percent(made.vote_test_accuracy)])
    rows.append(
        [
            "averaged probabilities",
            "",
            percent(made.average_validation_accuracy),
            percent(made.average_test_accuracy),
        ]
    )
    click.echo(table(["experiment", "individual", "validation", "test"], rows, left=2))
    click.echo(f"\nwritten  {made.path}")
