"""`genepool check`: every invariant of the directory."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from genepool.cli.options import DIRECTORY, JSON, json_text


@click.command()
@DIRECTORY
@JSON
def check(directory: Path, as_json: bool) -> None:
    """Checks that nothing in DIR is lost, doubled, damaged or orphaned; exit code 1 and the place if something is."""
    from genepool.population.check import check as inspect

    report = inspect(directory)
    if as_json:
        click.echo(json_text(report))
    else:
        census = report.census
        for broken in report.violations:
            click.echo(f"{broken.invariant}  {broken.place}: {broken.text}")
        click.echo(
            f"{census.alive} alive, {census.training} in training, {census.dead} dead, {census.failed} failed, "
            f"{report.fossils} archived; {census.quarantined} quarantined, {len(report.foreign)} foreign entries"
        )
        click.echo("every invariant holds" if report else f"broken in {len(report.violations)} places")
    sys.exit(0 if report else 1)
