"""Options and arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
DATA_DIR = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with the official files of data sets.  [default: GENEPOOL_DATA]",
)
SIZE = click.option("--size", help="Height x width to bring a folder's images to, like 32x32.  [default: their median]")
CHANNELS = click.option(
    "--channels", default=3, show_default=True, type=click.IntRange(1), help="Channels of the images."
)
DEVICE = click.option("--device", default="auto", show_default=True, help="Where to compute: auto, cpu, cuda or mps.")
THREADS = click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="To compute with.")
MEMORY = click.option(
    "--memory", metavar="SIZE", help="What each worker may take, like 2G or 800M.  [default: its share of what is free]"
)


def _load_plugins(ctx: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Before anything else: what the command line and the environment name, and nothing that a directory says."""
    from genepool.registry import load, named_by_environment

    load([*named_by_environment(), *names])
    return names


def plugin_option(*, shown_to_verb: bool = False) -> Callable[[F], F]:
    """`--plugin`, for every verb that looks up names."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE|FILE",
        callback=_load_plugins,
        expose_value=shown_to_verb,
        help="A module or .py file with your own mutations, data sets and so on; may be repeated.",
    )


PLUGIN = plugin_option()
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SET = click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.NAME=VALUE", help="Change a setting; may be repeated."
)
FORMAT = click.option(
    "--format", "name", type=click.Choice(["torch", "onnx", "source"]), default="torch", show_default=True
)
FORCE = click.option("--force", is_flag=True, help="Replace what is there.")


def json_text(value: object) -> str:
    """As the verbs print it."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def memory_of_each(asked: str | None, workers: int, *, trust: bool = False) -> int | None:
    """Bytes that each of so many workers may take, so that their sum never passes what is free now.

    With `trust`, whoever asks has looked before: a worker that is started again must not count the others twice.
    """
    from genepool.data.free_memory import available
    from genepool.dna import PROCESS_MEMORY
    from genepool.settings import size
    from genepool.workers.pool import allowance

    return allowance(size(asked) if asked else None, None if trust else available(), workers, PROCESS_MEMORY)
