"""Options and arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path

import click

DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
DATA_DIR = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where official files lie."
)
DEVICE = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
MEMORY = click.option(
    "--memory", metavar="SIZE", help="What a worker may take, like 2G or 800M.  [default: its share of what is free]"
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SET = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Change a setting; may be repeated."
)


def json_text(value: object) -> str:
    """As the verbs print it."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def memory_of_each(asked: str | None, workers: int, *, trust: bool = False) -> int | None:
    """Bytes that each of so many workers may take, so that their sum never passes what is free now.

    With `trust`, whoever asks has looked before: a worker that is started again must not count the others twice.
    """
    from genepool.dna.cost import PROCESS
    from genepool.engines.memory import allowance, available
    from genepool.settings import size

    return allowance(size(asked) if asked else None, None if trust else available(), workers, PROCESS)
