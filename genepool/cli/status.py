"""`genepool status` and `report`: the status of an experiment, and a page with its figures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from genepool.cli.options import DIRECTORY, FOLDER, JSON, PATH, json_text
from genepool.cli.text import amount, brief, moment, percent, shares, span


@click.command()
@DIRECTORY
@JSON
def status(directory: Path, as_json: bool) -> None:
    """Show the status of the experiment in DIR. It only reads; workers may be running."""
    facts = _facts(directory)
    click.echo(json_text(facts) if as_json else "\n".join(_lines(facts)))


def _facts(directory: Path) -> dict[str, Any]:
    from genepool.experiment import Experiment

    experiment = Experiment.open(directory)
    settings, found = experiment.settings(), experiment.status()
    census, spent, best = found.census, found.spent, found.best
    return {
        "directory": str(directory),
        "data": settings.data.source,
        "settings_version": experiment.version(),
        "population_size": settings.population.size,
        "workers_wanted": settings.workers.number(settings.population.size),
        **{name: getattr(census, name) for name in ("alive", "training", "dead", "failed", "quarantined", "foreign")},
        **{name: getattr(spent, name) for name in ("individuals", "flops", "flops_lost", "seconds")},
        "overhead": found.overhead.share,
        "workers": {
            who: {"individuals": total.individuals, "seconds": total.seconds, "overhead": total.share}
            for who, total in found.workers.items()
        },
        "best": None if best is None else best.id,
        "best_fitness": spent.best,
        "best_accuracy": None if best is None else best.accuracy,
        "best_network": "" if best is None else best.network,
        "over": found.over,
        "escape": found.escape or None,
        "interventions": [
            {"version": version, "when": note.when, "who": note.who, "what": note.label}
            for version, note in experiment.published().items()
            if note.label
        ],
    }


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    odd = [f"{facts[name]} {name}" for name in ("failed", "quarantined", "foreign") if facts[name]]
    workers = {who: total["overhead"] for who, total in facts["workers"].items()}
    yield f"experiment   {facts['directory']}, on {facts['data']}, settings version {facts['settings_version']}"
    yield (
        f"population   {facts['alive']} alive, {facts['training']} in training, {facts['dead']} dead"
        f" (target: {facts['population_size']})" + (f"; {', '.join(odd)}" if odd else "")
    )
    so_far = f"{facts['individuals']} individuals trained, {amount(facts['flops'])}FLOP, {span(facts['seconds'])}"
    yield f"so far       {so_far}"
    lost = percent(facts["flops_lost"] / max(1, facts["flops"]))
    yield f"lost         {lost} of the FLOPs, in trainings that failed, were cut off or had to be repeated"
    yield (
        f"overhead     {percent(facts['overhead'])} of the training time: all but the steps after the first"
        + (f"; by worker: {shares(workers)}" if workers else "")
    )
    yield f"best         {percent(facts['best_accuracy'] or 0.0)} validation accuracy: {brief(facts['best_network'])}"
    yield f"budget       {'not spent yet' if facts['over'] is None else facts['over']}"
    if facts["escape"]:
        yield f"escape       {facts['escape']}"
    for done in facts["interventions"]:
        yield f"intervention {moment(done['when'])}, by {done['who']}: {done['what']}"


@click.command()
@click.argument("place", metavar="DIR|STUDY", type=PATH)
@click.option("--out", type=FOLDER, help="Folder to write.  [default: report, in DIR]")
@click.option("--published", is_flag=True, help="Draw the results that a study's plan quotes even if of other data.")
def report(place: Path, out: Path | None, published: bool) -> None:
    """Write a report on an experiment or a study: HTML and Markdown, with figures (PNG, SVG) and data (CSV).

    Nothing is trained or tested; the same experiment or study always gives the same report.
    """
    from genepool.study.report import write_report

    click.echo(f"report  {write_report(place, out, published=published)}")
