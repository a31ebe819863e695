"""`genepool gc`: collect what is dead."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.options import DIRECTORY


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
