"""`genepool set`: settings that change while an experiment runs."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.options import DIRECTORY, PLUGIN


@click.command("set")
@DIRECTORY
@PLUGIN
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
def set_(directory: Path, assignments: tuple[str, ...]) -> None:
    """Changes settings of the experiment in DIR; workers go by them from their next step on."""
    from genepool import settings as names
    from genepool.experiment import Experiment

    experiment = Experiment.open(directory)
    before = experiment.settings()
    asked = names.override(before, assignments)
    old, new = names.to_values(before), names.to_values(asked)
    # No more than was asked for: somebody else may be changing the others.
    version = experiment.set({name: value for name, value in new.items() if value != old[name]})
    changes = [f"{name}: {old[name]} -> {new[name]}" for name in new if new[name] != old[name]]
    click.echo("\n".join([f"settings version {version}", *(changes or ["nothing changed"])]))
