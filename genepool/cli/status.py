"""`genepool status`: how an experiment stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from genepool.cli.options import DIRECTORY, JSON, json_text
from genepool.cli.text import amount, moment, percent, shares, span


@click.command()
@DIRECTORY
@JSON
def status(directory: Path, as_json: bool) -> None:
    """How the experiment in DIR stands. Reads only; workers may be running."""
    from genepool.analysis import overhead, overhead_by_worker
    from genepool.experiment import Experiment, budget_of, escape_of

    experiment = Experiment.open(directory)
    history = experiment.history()
    census = experiment.view().census()
    spent = history.spending()
    best = history.best()
    settings = experiment.settings()
    total, by_worker = overhead(history.results()), overhead_by_worker(history.results())
    facts: dict[str, Any] = {
        "directory": str(directory),
        "data": settings.data,
        "settings_version": experiment.version(),
        "population_size": settings.population_size,
        "alive": census.alive,
        "training": census.training,
        "dead": census.dead,
        "failed": census.failed,
        "quarantined": census.quarantined,
        "foreign": census.foreign,
        "individuals": spent.individuals,
        "flops": spent.flops,
        "seconds": spent.seconds,
        "overhead": total.share,
        "workers": {
            who: {"individuals": of.individuals, "seconds": of.seconds, "overhead": of.share}
            for who, of in by_worker.items()
        },
        "best": None if best is None else best.id,
        "best_fitness": spent.best,
        "best_accuracy": None if best is None else best.accuracy,
        "best_network": "" if best is None else best.dna.in_a_line(),
        "over": budget_of(settings).over(spent),
        "escape": escape_of(settings).told(spent) or None,
        "interventions": [
            {"version": version, "when": note.when, "who": note.who, "what": note.label}
            for version, note in experiment.published().items()
            if note.label
        ],
    }
    if as_json:
        click.echo(json_text(facts))
        return
    odd = [f"{facts[name]} {name}" for name in ("failed", "quarantined", "foreign") if facts[name]]
    lines = [
        f"experiment   {directory}, on {settings.data}, settings version {facts['settings_version']}",
        f"population   {census.alive} alive, {census.training} in training, {census.dead} dead"
        f" (wanted: {settings.population_size})" + (f"; {', '.join(odd)}" if odd else ""),
        f"so far       {spent.individuals} individuals trained, {amount(spent.flops)}FLOP, {span(spent.seconds)}",
        f"overhead     {percent(total.share)} of the training time is not steps 2 to n"
        + (f": {shares({who: of.share for who, of in by_worker.items()})}" if by_worker else ""),
        f"best         {percent((best.accuracy or 0.0) if best else 0.0)} validation accuracy: {facts['best_network']}",
        f"budget       {'goes on' if facts['over'] is None else facts['over']}",
    ]
    if facts["escape"]:
        lines.append(f"escape       {facts['escape']}")
    for done in facts["interventions"]:
        lines.append(f"intervention {moment(done['when'])}, by {done['who']}: {done['what']}")
    click.echo("\n".join(lines))
