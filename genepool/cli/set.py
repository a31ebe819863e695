"""`genepool set`, `intervene` and `migrate`: changes to a running experiment."""

from pathlib import Path

import click

from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY, JSON, PATH, PLUGIN, json_text
from genepool.cli.text import percent


@click.command("set")
@DIRECTORY
@PLUGIN
@click.argument("assignments", metavar="SECTION.NAME=VALUE...", nargs=-1, required=True)
def set_(directory: Path, assignments: tuple[str, ...]) -> None:
    """Change settings of the experiment in DIR; workers use them from their next step on."""
    from genepool.experiment import Experiment
    from genepool.settings import by_name, differences, override, written

    experiment = Experiment.open(directory)
    before = experiment.settings()
    # Only what was asked for: another process may be changing other settings.
    new, old = differences(before, override(before, assignments)), by_name(before)
    version = experiment.set(new)
    changes = [f"{name}: {written(old[name])} -> {written(value)}" for name, value in new.items()]
    click.echo("\n".join([f"settings version {version}", *(changes or ["nothing changed"])]))


@click.command()
@DIRECTORY
@click.option("--mutations", type=click.IntRange(1, 1000), help="Mutations per reproduction; needs --for.")
@click.option(
    "--for", "lasts", metavar="N|TIME",
    help="Duration of --mutations: 500 (individuals), or a time like 90s, 10m or 2h.",
)  # fmt: skip
@click.option("--reset-weights", is_flag=True, help="Discard all weights; every network is trained again.")
@click.option("--population", type=click.IntRange(2), help="Individuals to keep from now on.")
def intervene(
    directory: Path, mutations: int | None, lasts: str | None, reset_weights: bool, population: int | None
) -> None:
    """Help the population in DIR out of a local optimum; workers react from their next step on.

    A phase of more mutations ends after the duration given by --for. --reset-weights also discards the weights of the
    best network: to keep them, run `genepool best DIR` first.
    """
    from genepool.evolution import Intervention
    from genepool.experiment import Experiment
    from genepool.settings import duration

    experiment = Experiment.open(directory)
    individuals, seconds = (0, 0.0) if lasts is None else duration(lasts)
    intervention = Intervention(
        mutations=mutations or 0, individuals=individuals, seconds=seconds,
        reset_weights=reset_weights, population=population or 0,
    )  # fmt: skip
    version = experiment.intervene(intervention, experiment.history().spending())
    until = f" for {lasts}{' individuals' if individuals else ''}" if lasts else ""
    click.echo(f"settings version {version}: {intervention.label}{until}")


@click.command()
@click.argument("home", metavar="FROM", type=PATH)
@click.argument("abroad", metavar="TO", type=PATH)
@click.option("--best", default=1, show_default=True, type=click.IntRange(1), help="Number of individuals.")
@DATA_DIR
@DEVICE
@PLUGIN
@JSON
def migrate(home: Path, abroad: Path, best: int, data_dir: Path | None, device: str, as_json: bool) -> None:
    """Copy the best individuals of FROM into TO, with weights and lineage; both experiments may be running.

    Both must have the same kind of images and classes. The copies' fitness is measured on TO's validation images.
    """
    from genepool.experiment import Experiment
    from genepool.experiment import migrate as move
    from genepool.nn import prepare_process

    prepare_process(1)
    moved = move(Experiment.open(home), Experiment.open(abroad), best, data_dir, device)
    if as_json:
        click.echo(json_text([migrant._asdict() for migrant in moved]))
        return
    for former, identity, before, now in moved:
        click.echo(f"{former} is {identity} in {abroad}: {percent(now)} there, {percent(before)} at home")
