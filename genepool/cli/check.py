"""`genepool check`, `doctor` and `gc`: maintenance of a population's directory."""

import sys
from contextlib import suppress
from pathlib import Path

import click

from genepool.cli.options import DIRECTORY, JSON, json_text
from genepool.cli.text import table
from genepool.errors import ConcurrencyError, StorageError, shown


@click.command()
@DIRECTORY
@JSON
def check(directory: Path, as_json: bool) -> None:
    """Check that nothing in DIR is lost, duplicated, damaged or orphaned; the exit code is 1 if something is."""
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
        click.echo("every invariant holds" if report else f"{len(report.violations)} violations")
    sys.exit(0 if report else 1)


@click.command()
@DIRECTORY
@JSON
def doctor(directory: Path, as_json: bool) -> None:
    """Check that the file system of DIR is safe for a population; the exit code is 1 if it is not."""
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
        risky = {"slow": "safe, but changes become visible slowly", "refused": "not safe: individuals could be lost"}
        click.echo(f"\n{risky.get(diagnosis.verdict, 'safe')}")
    sys.exit(1 if diagnosis.verdict == "refused" else 0)


@click.command()
@DIRECTORY
def gc(directory: Path) -> None:
    """Archive the dead individuals in DIR and remove their directories; their records are kept."""
    from genepool.population import DirectoryPopulation, State

    population = DirectoryPopulation.open(directory)
    collected = 0
    for individual in population.snapshot():
        if individual.state in (State.DEAD, State.FAILED):
            with suppress(ConcurrencyError):  # a worker was faster
                population.collect(individual)
                collected += 1
    population.close()
    click.echo(f"{collected} individuals collected")
