"""`genepool check`, `doctor` and `gc`: the care of a population directory.

`genepool check`: every invariant of the directory.

`genepool doctor`: is this file system fit for a population?

`genepool gc`: collect what is dead.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from genepool.cli.options import DIRECTORY, JSON, json_text
from genepool.cli.text import table
from genepool.errors import StorageError, shown


@click.command()
@DIRECTORY
@JSON
def check(directory: Path, as_json: bool) -> None:
    """Checks that nothing in DIR is lost, doubled, damaged or orphaned; exit code 1 and the place if something is."""
    from genepool.population import check_directory

    report = check_directory(directory)
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


@click.command()
@DIRECTORY
@JSON
def doctor(directory: Path, as_json: bool) -> None:
    """Probes the file system under DIR: safe, slow to notice, or refused (exit code 1)."""
    from genepool.population.directory.doctor import examine

    try:
        diagnosis = examine(directory)
    except OSError as error:
        raise StorageError(f"'{shown(directory)}' cannot be probed: {error.strerror or error}.") from None
    if as_json:
        click.echo(json_text(diagnosis))
    else:
        rows = [[finding.probe, finding.verdict, finding.text] for finding in diagnosis.findings]
        click.echo(table(["probe", "verdict", "finding"], rows, left=3))
        meaning = {"safe": "safe", "slow": "safe, but slow to notice", "refused": "refused: individuals could be lost"}
        click.echo(f"\n{meaning[diagnosis.verdict]}")
    sys.exit(1 if diagnosis.verdict == "refused" else 0)


@click.command()
@DIRECTORY
def gc(directory: Path) -> None:
    """Archives the dead individuals in DIR and removes their directories; their records stay, lineage included."""
    from genepool.errors import ConcurrencyError
    from genepool.population import DirectoryPopulation, State

    population = DirectoryPopulation.open(directory)
    collected = 0
    for individual in population.snapshot():
        if individual.state in (State.DEAD, State.FAILED):
            try:
                population.collect(individual)
                collected += 1
            except ConcurrencyError:  # a worker was faster
                continue
    population.close()
    click.echo(f"{collected} individuals collected")
