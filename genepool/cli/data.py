"""`genepool data`: list the data sets, or download one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genepool.cli.options import DATA_DIR, JSON, PLUGIN, json_text
from genepool.cli.text import table
from genepool.errors import DataError, shown

if TYPE_CHECKING:
    from genepool.data import Listing


@click.group(invoke_without_command=True)
@DATA_DIR
@PLUGIN
@JSON
@click.pass_context
def data(ctx: click.Context, data_dir: Path | None, as_json: bool) -> None:
    """List the data sets that can be selected by name, or download one."""
    if ctx.invoked_subcommand is not None:
        return
    from genepool.data import SOURCES, data_folder

    data_folder(data_dir)
    facts = [_facts(SOURCES.get(name), data_dir) for name in SOURCES]
    click.echo(json_text(facts) if as_json else _page(facts))


@data.command()
@click.argument("name")
@DATA_DIR
@JSON
def fetch(name: str, data_dir: Path | None, as_json: bool) -> None:
    """Download the data set NAME into the cache, unless it is already on this machine."""
    from genepool.data import SOURCES

    listing = SOURCES.get(name)
    found = None if listing.find is None else listing.find(data_dir)
    if found is None and listing.fetch is not None:
        with download_progress() as progress:
            found = listing.fetch(progress)
    place = None if found is None else shown(found)
    click.echo(json_text({"name": name, "found": place}) if as_json else f"{name} {_place(place)}")


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar on a terminal, otherwise a line per tenth; on standard error."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name)
            bars.update(tasks[name], completed=done, total=total)

        yield show


def _lines() -> Callable[[str, int, int | None], None]:
    known: set[tuple[str, int]] = set()

    def show(name: str, done: int, total: int | None) -> None:
        tenth = done * 10 // total if total else done // 10**7
        if (name, tenth) not in known:
            known.add((name, tenth))
            of = f" of {total / 1e6:.1f}" if total else ""
            click.echo(f"{name}: {done / 1e6:.1f}{of} MB", err=True)

    return show


def _facts(listing: Listing, data_dir: Path | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        field: getattr(listing, field)
        for field in ("name", "train", "validation", "test", "height", "width", "channels", "classes", "licence")
    }
    facts |= {"shipped": listing.find is None, "found": None, "problem": None}
    try:
        found = None if listing.find is None else listing.find(data_dir)
        facts["found"] = None if found is None else shown(found)
    except DataError as error:
        facts["problem"] = str(error)
    return facts


def _page(facts: list[dict[str, Any]]) -> str:
    header = ("data set", "training", "validation", "test", "size", "classes", "licence", "where")
    rows = [
        (
            fact["name"], *(f"{fact[part]:,}" for part in ("train", "validation", "test")),
            f"{fact['height']}x{fact['width']}x{fact['channels']}", str(fact["classes"]), fact["licence"], _where(fact),
        )
        for fact in facts
    ]  # fmt: skip
    return table(header, rows, also_left=(6, 7))


def _where(fact: dict[str, Any]) -> str:
    if fact["problem"] is not None:
        return str(fact["problem"])
    if fact["shipped"] or fact["found"] is not None:
        return _place(fact["found"])
    return f"not here: genepool data fetch {fact['name']}"


def _place(found: str | None) -> str:
    return "included in Genepool" if found is None else f"in {found}"
