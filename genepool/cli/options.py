"""Options and arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path

import click

DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
DATA_DIR = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where official files lie."
)
DEVICE = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SET = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Change a setting; may be repeated."
)


def json_text(value: object) -> str:
    """As the verbs print it."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
