"""`genepool best`: the chosen network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, JSON, PLUGIN, json_text
from genepool.cli.text import amount, brief, percent, span, table

if TYPE_CHECKING:
    from genepool.analysis import Point
    from genepool.data import Source
    from genepool.experiment import BestNetwork


@click.command()
@DIRECTORY
@DATA_DIR
@DEVICE
@PLUGIN
@click.option("--no-test", is_flag=True, help="Do not measure test accuracy.")
@click.option("--front", is_flag=True, help="The best trade-offs between accuracy, parameters and FLOPs.")
@JSON
def best(directory: Path, data_dir: Path | None, device: str, no_test: bool, front: bool, as_json: bool) -> None:
    """Print the fittest network in DIR and its test accuracy.

    Test accuracy is measured once and then kept. --front prints all networks that were ever trained and that no other
    beats in accuracy, parameters and FLOPs at once.
    """
    from genepool.experiment import Experiment, best_network

    experiment = Experiment.open(directory)
    if front:
        points = experiment.front()
        click.echo(json_text(points) if as_json else _front_page(points))
        return

    def source() -> Source:
        with download_progress() as progress:
            return experiment.source(data_dir, progress)

    found = best_network(experiment, source=None if no_test else source, device=device)
    click.echo(json_text(found) if as_json else page(found))


def page(found: BestNetwork, figure: Path | None = None) -> str:
    why = f": {found.untested}" if found.untested else ""
    tested = f"not measured{why}" if found.test_accuracy is None else percent(found.test_accuracy)
    lines = [
        f"best network         {brief(found.network)}",
        f"validation accuracy  {percent(found.validation_accuracy)}",
        f"test accuracy        {tested}",
        f"parameters           {found.parameters:,}",
    ]
    if found.fitness != found.validation_accuracy:
        lines.append(f"fitness              {found.fitness:.4f}, with {amount(found.flops_image)}FLOP per image")
    if found.milliseconds is not None:
        lines.append(f"inference            {found.milliseconds:.3g} ms per image")
    lines += [
        f"search               {amount(found.flops)}FLOP, {found.individuals} individuals, {span(found.seconds)}",
        f"model                {found.weights}",
        *([f"figure               {figure}"] if figure else []),
    ]
    return "\n".join(lines)


def _front_page(points: list[Point]) -> str:
    if not points:
        return "No network has been trained yet; let the experiment run for a while."
    timed = any(point.milliseconds is not None for point in points)
    rows = [
        [
            point.id, point.network, point.state, "there" if point.weights else "gone", percent(point.accuracy),
            f"{point.parameters:,}", amount(point.flops),
            *(["-" if point.milliseconds is None else f"{point.milliseconds:.3g}"] if timed else []),
        ]
        for point in points
    ]  # fmt: skip
    header = ["individual", "network", "state", "weights", "accuracy", "parameters", "FLOPs per image"]
    return table([*header, *(["milliseconds"] if timed else [])], rows, left=4)
