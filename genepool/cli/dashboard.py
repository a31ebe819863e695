"""`genepool dashboard`: a live page of an experiment, or of a folder of experiments."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import click

from genepool.cli.options import FILE, PATH, PLUGIN
from genepool.errors import GenepoolError, MissingDependencyError

PORT = 8421


@click.command()
@click.argument("place", metavar="DIR", type=PATH)
@click.option("--port", type=click.IntRange(0, 65535), help=f"Port to listen on.  [default: {PORT}, or any if taken]")
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help="Address to listen on; 0.0.0.0: all addresses of this machine.",
)  # fmt: skip
@click.option(
    "--control", is_flag=True, help="Allow anyone with the printed address to change settings and stop the experiment."
)
@click.option("--export", "target", type=FILE, help="Write the page to one file that opens without a server, and exit.")
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

        click.echo(f"{target}: {export_page(place, target) / 1e6:.1f} MB, opens in any browser")
        return
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
def beside(directory: Path) -> Iterator[None]:
    """Run a dashboard in its own process while the context lasts; print its address on standard error."""
    place = directory / "logs" / "dashboard.log"
    place.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "genepool", "dashboard", str(directory), "--parent", str(os.getpid())]
    with place.open("wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        click.echo(_first_line(child, place), err=True)
        yield
    finally:
        child.terminate()
        child.wait()


def _first_line(child: subprocess.Popen[bytes], log: Path) -> str:
    while child.poll() is None:
        line, newline, _ = log.read_text(errors="replace").partition("\n")
        if newline:
            return line
        time.sleep(0.05)
    fault = log.read_text(errors="replace").strip().removeprefix("Error: ")
    raise GenepoolError(fault or "The dashboard could not be started.")
