"""`genepool intervene`: helps a running population out of a local optimum."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.options import DIRECTORY


@click.command()
@DIRECTORY
@click.option("--mutations", type=click.IntRange(1, 1000), help="So many at each reproduction, with --for.")
@click.option("--for", "lasts", metavar="N|TIME", help="How long: 500 (individuals), or 90s, 10m, 2h (time).")
@click.option("--reset-weights", is_flag=True, help="Everybody's, at once: each must earn its fitness again.")
@click.option("--population", type=click.IntRange(2), help="Individuals to keep from now on.")
def intervene(
    directory: Path, mutations: int | None, lasts: str | None, reset_weights: bool, population: int | None
) -> None:
    """Helps the population in DIR out of a local optimum; workers obey from their next step on.

    More mutations end by themselves. After --reset-weights the best network so far goes as well: `genepool best DIR`
    before it keeps that one.
    """
    from genepool.evolution import Intervention
    from genepool.experiment import Experiment

    experiment = Experiment.open(directory)
    individuals, seconds = _while(lasts)
    intervention = Intervention(
        mutations=mutations or 0,
        individuals=individuals,
        seconds=seconds,
        reset_weights=reset_weights,
        population=population or 0,
    )
    version = experiment.intervene(intervention, experiment.history().spending())
    until = f" for {lasts}{' individuals' if individuals else ''}" if lasts else ""
    click.echo(f"settings version {version}: {intervention.label}{until}")


def _while(text: str | None) -> tuple[int, float]:
    """Individuals, or seconds: a time has a unit."""
    from genepool.errors import SettingsError, shown
    from genepool.settings import seconds

    if text is None:
        return 0, 0.0
    found = (int(text[:12]), 0.0) if text.isascii() and text.isdigit() else (0, seconds(text))
    if not 0 < max(found) <= 1e9:
        raise SettingsError(f"--for {shown(text)} is too short or too long; write 500 (individuals) or 10m (time).")
    return found
