"""`genepool lineage` and `replay`: the mutations that led to an individual, shown or repeated."""

import sys
from pathlib import Path

import click

from genepool.cli.data import download_progress
from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, JSON, PLUGIN, THREADS, json_text
from genepool.cli.text import percent, table
from genepool.errors import shown


@click.command()
@DIRECTORY
@click.argument("identity", metavar="[ID]", default="")
@JSON
def lineage(directory: Path, identity: str, as_json: bool) -> None:
    """Show the lineage of the individual ID (a unique part is enough; default: the best), from the first network on."""
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
            link.id, (" + ".join(link.mutations) or beginning) + (f" with {link.second}" if link.second else ""),
            link.network, "-" if link.accuracy is None else percent(link.accuracy),
            *(["-" if link.fitness is None else f"{link.fitness:.4f}"] if apart else []),
            link.rates, f"{link.parameters:,}", link.state,
        ]
        for link in chain
    ]  # fmt: skip
    goals = ["accuracy", "fitness"] if apart else ["accuracy"]
    click.echo(table(["individual", "mutation", "network", *goals, "rate", "parameters", "state"], rows, left=3))


@click.command()
@DIRECTORY
@click.argument("identity", metavar="[ID]", default="")
@DATA_DIR
@DEVICE
@PLUGIN
@THREADS
@click.option("--test", is_flag=True, help="Also test the four networks that `genepool report` draws.")
@JSON
def replay(
    directory: Path, identity: str, data_dir: Path | None, device: str, threads: int, test: bool, as_json: bool
) -> None:
    """Repeat every mutation and training that led to the individual ID (default: the best), with the recorded seeds.

    The exit code is 1 if an accuracy differs from the recorded one. With --test, test accuracies are measured with the
    original weights or, if they are gone, with repeated ones that agree with the record, and kept for reports.
    """
    from genepool.analysis import four_ancestors
    from genepool.experiment import Experiment, choose_best, measure_repeated
    from genepool.experiment import replay as repeat
    from genepool.nn import prepare_process
    from genepool.study import known_test_accuracies

    experiment = Experiment.open(directory)
    history = experiment.history()
    identity = identity or choose_best(experiment, history).id
    prepare_process(threads)
    with download_progress() as progress:
        source = experiment.source(data_dir, progress)
    data = experiment.prepared(source)
    drawn = four_ancestors(history.rows, identity, known_test_accuracies(experiment)) if test else []
    untested = {network.id for network in drawn if network.test is None}
    links = []
    for link in repeat(experiment, history, identity, experiment.evaluators(data, device), data.image):
        again, recorded = link.accuracy, link.row.accuracy
        measured = measure_repeated(experiment, link, source, device) if link.row.id in untested else None
        facts = {"id": link.row.id, "recorded": recorded, "replayed": again, "agrees": link.agrees, "test": measured}
        links.append(facts)
        made = " + ".join(link.row.birth.mutations) or "the beginning"
        verdict = "" if link.agrees else f", but {percent(recorded or 0.0)} is recorded"
        tested = "" if measured is None else f"; test accuracy {percent(measured)}"
        click.echo(f"{link.row.id}  {made}: {percent(again)}{verdict}{tested}", err=as_json)
    same = all(link["agrees"] for link in links)
    if as_json:
        click.echo(json_text({"id": links[-1]["id"], "agrees": same, "lineage": links}))
    else:
        click.echo("The replay agrees with the record." if same else "The replay does NOT agree with the record.")
    sys.exit(0 if same else 1)
