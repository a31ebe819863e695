"""`genepool best`: the chosen network."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, JSON, PLUGIN, json_text
from genepool.cli.run import page


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@PLUGIN
@click.option("--no-test", is_flag=True, help="Do not measure test accuracy.")
@JSON
def best(directory: Path, data_dir: Path | None, device: str, no_test: bool, as_json: bool) -> None:
    """The network of highest validation accuracy in DIR, and its test accuracy, which is measured once for it."""
    from genepool.champion import champion
    from genepool.experiment import Experiment

    experiment = Experiment.open(directory)
    source = None
    if not no_test:
        with download_progress() as progress:
            source = experiment.source(data_dir, progress)
    found = champion(experiment, source=source, device=device)
    click.echo(json_text(found) if as_json else page(found))
