"""`genepool best`: the chosen network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, JSON, PLUGIN, json_text
from genepool.cli.run import page
from genepool.cli.text import amount, percent, table

if TYPE_CHECKING:
    from genepool.analysis import Point


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@PLUGIN
@click.option("--no-test", is_flag=True, help="Do not measure test accuracy.")
@click.option(
    "--front", "whole_front", is_flag=True, help="Every network that no other beats in accuracy and cost at once."
)
@JSON
def best(directory: Path, data_dir: Path | None, device: str, no_test: bool, whole_front: bool, as_json: bool) -> None:
    """The fittest network in DIR (by default fitness is validation accuracy), and its test accuracy.

    Test accuracy is measured once and then kept. With --front: of all networks that ever lived, the best trade-offs
    between accuracy, parameters and FLOPs.
    """
    from genepool.experiment import Experiment
    from genepool.experiment.best import best_network

    experiment = Experiment.open(directory)
    if whole_front:
        points = experiment.front()
        click.echo(json_text(points) if as_json else _front_page(points))
        return
    source = None
    if not no_test:
        with download_progress() as progress:
            source = experiment.source(data_dir, progress)
    found = best_network(experiment, source=source, device=device)
    click.echo(json_text(found) if as_json else page(found))


def _front_page(points: list[Point]) -> str:
    if not points:
        return "Nobody has been trained yet; let it run for a while."
    timed = any(point.milliseconds is not None for point in points)
    rows = [
        [
            point.id,
            point.network,
            point.state,
            "there" if point.weights else "gone",
            percent(point.accuracy),
            f"{point.parameters:,}",
            amount(point.flops),
            *(["-" if point.milliseconds is None else f"{point.milliseconds:.3g}"] if timed else []),
        ]
        for point in points
    ]
    header = ["individual", "network", "state", "weights", "accuracy", "parameters", "FLOPs an image"]
    return table([*header, *(["milliseconds"] if timed else [])], rows, left=4)
