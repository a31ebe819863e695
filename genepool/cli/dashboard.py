"""`genepool dashboard`: a live page of an experiment, or of a folder of experiments."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import click

from genepool.cli.options import PLUGIN
from genepool.errors import GenepoolError, MissingDependencyError

PORT = 8421


@click.command()
@click.argument("place", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), help=f"Port to listen on.  [default: {PORT}, or any if taken]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0: all addresses of this machine.",
)
@click.option(
    "--control", is_flag=True, help="Allow anyone with the printed address to change settings and stop the experiment."
)
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page to one file that opens without a server, and exit.",
)
@PLUGIN
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
def dashboard(place: Path, port: int | None, host: str, control: bool, target: Path | None, parent: int | None) -> None:
    """Serve a live page of the experiment in DIR, or of all experiments in the folders below DIR.

    It only reads, and can be started and stopped at any time, on any machine that has access to the directory. From
    another machine: `ssh -L 8421:127.0.0.1:8421 that-machine`.
    """
    if not (find_spec("starlette") and find_spec("uvicorn")):
        raise MissingDependencyError("The dashboard needs two more packages: pip install 'genepool[dashboard]'.")
    if target is not None:
        from genepool.dashboard import export_page

        size = export_page(place, target)
        click.echo(f"{target}: {size / 1e6:.1f} MB, opens in any browser")
        return

    import secrets

    from genepool.dashboard import Dashboard, listen, serve

    token = secrets.token_urlsafe(16) if control else None
    serving = Dashboard(place, host=host, token=token)
    listening = listen(host, port, PORT)
    with suppress(OSError):
        os.nice(5)  # training has priority
    shown_host = f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{listening.getsockname()[1]}/" + (f"#token={token}" if token else "")
    click.echo(f"dashboard  {address}")
    if token:
        click.echo("           anyone with this address can change settings and stop the experiment")
    with suppress(KeyboardInterrupt):
        serve(serving, listening, parent)


@contextmanager
def beside(directory: Path) -> Iterator[str]:
    """Run a dashboard in its own process while the context lasts; yields its address."""
    folder = directory / "logs"
    folder.mkdir(exist_ok=True)
    place = folder / "dashboard.log"
    command = [sys.executable, "-m", "genepool", "dashboard", str(directory), "--parent", str(os.getpid())]
    with place.open("wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        yield _first_line(child, place)
    finally:
        child.terminate()
        child.wait()


def _first_line(child: subprocess.Popen[bytes], log: Path) -> str:
    while True:
        ended = child.poll() is not None
        text = log.read_text(errors="replace")
        if "\n" in text and not ended:
            return text.partition("\n")[0]
        if ended:
            raise GenepoolError(text.strip().removeprefix("Error: ") or "The dashboard could not be started.")
        time.sleep(0.05)
