"""`genepool report`: what an experiment or a study found, to read and to hand on."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("place", metavar="DIR|STUDY", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write.  [default: report, in DIR]"
)
def report(place: Path, out: Path | None) -> None:
    """Writes a page (HTML) and a text (Markdown) on an experiment or a study, with figures (PNG, SVG) and rows (CSV).

    Nothing is trained or tested for it; the same experiment or study gives the same report.
    """
    from genepool.study.report import write_report

    click.echo(f"report  {write_report(place, out)}")
