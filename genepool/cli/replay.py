"""`genepool replay`: an individual rebuilt from its lineage."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, JSON, PLUGIN, THREADS, json_text
from genepool.cli.text import percent


@click.command()
@DIRECTORY
@click.argument("identity", metavar="[ID]", default="")
@DATA_DIR
@DEVICE
@PLUGIN
@THREADS
@JSON
def replay(directory: Path, identity: str, data_dir: Path | None, device: str, threads: int, as_json: bool) -> None:
    """Repeats every mutation and training that led to the individual ID (by default the best), with the recorded seeds.

    Exit code 1 if it does not reach the recorded accuracy.
    """
    from genepool.data import prepare
    from genepool.experiment import Experiment, choose_best
    from genepool.experiment import replay as repeat
    from genepool.nn import prepare_process

    experiment = Experiment.open(directory)
    history = experiment.history()
    identity = identity or choose_best(experiment, history).id
    prepare_process(threads)
    with download_progress() as progress:
        data = prepare(experiment.source(data_dir, progress))
    links = []
    for link in repeat(experiment, history, identity, experiment.evaluators(data, device), data.image):
        again, recorded = link.accuracy, link.row.accuracy
        links.append({"id": link.row.id, "recorded": recorded, "replayed": again, "agrees": link.agrees})
        made = " + ".join(link.row.birth.mutations) or "the beginning"
        verdict = "" if link.agrees else f", but {percent(recorded or 0.0)} is recorded"
        click.echo(f"{link.row.id}  {made}: {percent(again)}{verdict}", err=as_json)
    same = all(link["agrees"] for link in links)
    if as_json:
        click.echo(json_text({"id": links[-1]["id"], "agrees": same, "lineage": links}))
    else:
        click.echo(
            "The replay reaches the recorded accuracy." if same else "The replay does NOT agree with the record."
        )
    sys.exit(0 if same else 1)
