"""`genepool migrate`: the best of one population as newcomers in another."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.options import DATA_DIR, DEVICE, JSON, json_text
from genepool.cli.text import percent

PLACE = click.Path(path_type=Path)


@click.command()
@click.argument("home", metavar="FROM", type=PLACE)
@click.argument("abroad", metavar="TO", type=PLACE)
@click.option("--best", default=1, show_default=True, type=click.IntRange(1), help="How many of the best.")
@DATA_DIR
@DEVICE
@JSON
def migrate(home: Path, abroad: Path, best: int, data_dir: Path | None, device: str, as_json: bool) -> None:
    """Puts copies of the best individuals in FROM into TO, with weights and lineage; both may be at work.

    Images and classes of both must be alike. Their fitness is measured on TO's validation images.
    """
    from genepool.experiment import Experiment
    from genepool.experiment import migrate as move
    from genepool.nn import prepare_process

    prepare_process(1)
    moved = move(Experiment.open(home), Experiment.open(abroad), best, data_dir, device)
    if as_json:
        click.echo(json_text([migrant._asdict() for migrant in moved]))
        return
    for former, identity, before, now in moved:
        click.echo(f"{former} is {identity} in {abroad}: {percent(now)} there, {percent(before)} at home")
