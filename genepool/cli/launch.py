"""`genepool launch`: workers through a batch scheduler, Kubernetes or ssh."""

from __future__ import annotations

from pathlib import Path

import click

from genepool.cli.options import DATA_DIR, DEVICE, DIRECTORY


@click.command()
@click.argument("scheduler", type=click.Choice(["slurm", "k8s", "ssh"]))
@DIRECTORY
@click.option("--workers", type=click.IntRange(1), help="How many.  [default: the setting `workers`]")
@click.option("--cpus-per-worker", default=1, show_default=True, type=click.IntRange(1))
@click.option("--gpus-per-worker", default=0.0, show_default=True, type=click.FloatRange(0))
@click.option("--memory", metavar="SIZE", help="What each worker may take, like 2G.")
@click.option("--time-limit", help="Slurm: end and requeue a worker after this time, like 24h.")
@click.option("--image", default="", help="Kubernetes: the container image, with Genepool in it.")
@click.option("--claim", default="", help="Kubernetes: the volume claim mounted where DIR is.")
@click.option("--hosts", default="", help="ssh: names of machines, separated by commas.")
@DATA_DIR
@DEVICE
@click.option("--submit", is_flag=True, help="Also submit it, by sbatch, kubectl or ssh.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write to a file, not to the screen.")
def launch(
    scheduler: str,
    directory: Path,
    workers: int | None,
    cpus_per_worker: int,
    gpus_per_worker: float,
    memory: str | None,
    time_limit: str | None,
    image: str,
    claim: str,
    hosts: str,
    data_dir: Path | None,
    device: str,
    submit: bool,
    out: Path | None,
) -> None:
    """Writes a job that starts workers for the experiment in DIR, and with --submit submits it.

    DIR must hold an experiment already: `genepool run DIR`, stopped at once, makes one. All workers must see it, and
    this installation of Genepool, under the same path (on Kubernetes Genepool is in the image).
    """
    from genepool import settings as names
    from genepool.errors import StorageError
    from genepool.experiment import Experiment
    from genepool.workers.launch import LAUNCHERS, Order
    from genepool.workers.launch import submit as hand_in

    experiment = Experiment.open(directory)
    handed_on = {"--data-dir": data_dir and data_dir.resolve(), "--device": device if device != "auto" else None}
    order = Order(
        directory=str(directory.resolve()),
        workers=workers or experiment.settings().workers.count or 1,
        cpus=cpus_per_worker,
        gpus=gpus_per_worker,
        memory=names.size(memory) if memory else None,
        seconds=int(names.seconds(time_limit)) if time_limit else None,
        options=tuple(str(word) for pair in handed_on.items() if pair[1] for word in pair),
        hosts=tuple(host for host in hosts.split(",") if host),
        image=image,
        claim=claim,
    )
    launcher = LAUNCHERS[scheduler]
    text = launcher.write(order)
    try:
        (directory / "logs").mkdir(exist_ok=True)  # Slurm makes no folder for its logs
        if out is not None:
            out.write_text(text)
    except OSError as error:
        raise StorageError(f"'{error.filename}' cannot be written: {error.strerror}.") from None
    if submit:
        click.echo(hand_in(launcher, text))
    elif out is None:
        click.echo(text, nl=False)
