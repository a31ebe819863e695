"""`genepool lineage`: the chain of mutations."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.options import DIRECTORY, JSON, json_text
from genepool.cli.text import percent, table
from genepool.errors import shown


@click.command()
@DIRECTORY
@click.argument("identity", metavar="[ID]", default="")
@JSON
def lineage(directory: Path, identity: str, as_json: bool) -> None:
    """From the first network to the individual ID (or enough of its ID), by default the best one."""
    from genepool.analysis import lineage as chain_to
    from genepool.experiment import Experiment, choose_best

    experiment = Experiment.open(directory)
    history = experiment.history()
    chain = chain_to(history.rows, identity or choose_best(experiment, history).id)
    if as_json:
        click.echo(json_text(chain))
        return
    origin = (experiment.settings().experiment.start or "").rpartition(" ")[0]
    beginning = f"(the beginning: {shown(origin)})" if origin else "(the beginning)"
    apart = any(link.fitness != link.accuracy for link in chain)
    rows = [
        [
            link.id,
            (" + ".join(link.mutations) or beginning) + (f" with {link.second}" if link.second else ""),
            link.network,
            "-" if link.accuracy is None else percent(link.accuracy),
            *(["-" if link.fitness is None else f"{link.fitness:.4f}"] if apart else []),
            f"{link.learning_rate:.4g}",
            f"{link.parameters:,}",
            link.state,
        ]
        for link in chain
    ]
    goals = ["accuracy", "fitness"] if apart else ["accuracy"]
    click.echo(table(["individual", "mutation", "network", *goals, "rate", "parameters", "state"], rows, left=3))
