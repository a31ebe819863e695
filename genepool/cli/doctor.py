"""`genepool doctor`: is this file system fit for a population?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from genepool.cli.options import DIRECTORY, JSON, json_text
from genepool.cli.text import table
from genepool.errors import StorageError, shown


@click.command()
@DIRECTORY
@JSON
def doctor(directory: Path, as_json: bool) -> None:
    """Probes the file system under DIR: safe, slow to notice, or refused (exit code 1)."""
    from genepool.population.doctor import examine

    try:
        diagnosis = examine(directory)
    except OSError as error:
        raise StorageError(f"'{shown(directory)}' cannot be probed: {error.strerror or error}.") from None
    if as_json:
        click.echo(json_text(diagnosis))
    else:
        rows = [[finding.probe, finding.verdict, finding.text] for finding in diagnosis.findings]
        click.echo(table(["probe", "verdict", "finding"], rows, left=3))
        meaning = {"safe": "safe", "slow": "safe, but slow to notice", "refused": "refused: individuals could be lost"}
        click.echo(f"\n{meaning[diagnosis.verdict]}")
    sys.exit(1 if diagnosis.verdict == "refused" else 0)
