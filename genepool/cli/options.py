"""Options and arguments that several commands share."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from genepool.errors import SettingsError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=msgspec.Struct)

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
POSITIVE = click.IntRange(1)

DIRECTORY = click.argument("directory", metavar="DIR", type=PATH)
DATA_DIR = click.option(
    "--data-dir", type=FOLDER, help="Folder with the official files of data sets.  [default: GENEPOOL_DATA]"
)
SIZE = click.option(
    "--size", "data__size", callback=lambda ctx, option, text: f"{text}x{text}" if (text or "").isdecimal() else text,
    help="Height x width to scale a folder's images to, like 32x32 or 32.  [default: their median]",
)  # fmt: skip
CHANNELS = click.option("--channels", default=3, show_default=True, type=POSITIVE, help="Channels of the images.")
DEVICE = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
THREADS = click.option("--threads", default=1, show_default=True, type=POSITIVE, help="Threads.")
MEMORY = click.option(
    "--memory", metavar="SIZE", help="The most a worker may use, like 2G or 800M.  [default: a share of what is free]"
)


def _load_plugins(ctx: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Load the plugins that the command line and the environment name, before anything looks up a name."""
    from genepool.registry import load, named_by_environment

    load([*named_by_environment(), *names])
    return names


def plugin_option(*, passed_on: bool = False) -> Callable[[F], F]:
    """`--plugin`, for every command that looks up names."""
    return click.option(
        "--plugin", "plugins", multiple=True, metavar="MODULE|FILE", callback=_load_plugins, expose_value=passed_on,
        help="A module or .py file with your own mutations, data sets and so on; may be repeated.",
    )  # fmt: skip


PLUGIN = plugin_option()
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SET = click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.NAME=VALUE", help="Change a setting; may be repeated."
)
FORMAT = click.option(
    "--format", "name", type=click.Choice(["torch", "onnx", "source"]), default="torch", show_default=True
)
FORCE = click.option("--force", is_flag=True, help="Overwrite what exists.")


def ray_options(command: F) -> F:
    """The engine and the options of Ray, passed to the command as one value: `ray`, None without --engine ray."""

    @click.option(
        "--engine", type=click.Choice(["processes", "ray"]), default="processes", show_default=True,
        help="What runs the workers.",
    )  # fmt: skip
    @click.option(
        "--address", help="Ray: the cluster, auto or like 10.0.0.5:6379.  [default: RAY_ADDRESS, or a new cluster here]"
    )
    @click.option("--cpus-per-worker", "cpus", type=click.FloatRange(0, 1024), default=1.0, help="Ray.  [default: 1]")
    @click.option(
        "--gpus-per-worker", "gpus", type=click.FloatRange(0, 64), default=0.0, help="Ray, like 0.25.  [default: 0]"
    )
    @click.option("--serve-population", "serve", is_flag=True, help="Ray: serve DIR to nodes that do not see it.")
    @functools.wraps(command)
    def wrapped(engine: str, **given: Any) -> Any:
        from genepool.workers import RayOptions

        ray, rest = split(RayOptions, given)
        if engine != "ray" and ray != RayOptions():
            these = "--address, --cpus-per-worker, --gpus-per-worker and --serve-population"
            raise SettingsError(f"{these} need --engine ray.")
        return command(ray=ray if engine == "ray" else None, **rest)

    return wrapped  # type: ignore[return-value]


def split(kind: type[T], given: dict[str, Any]) -> tuple[T, dict[str, Any]]:
    """The options that are fields of a struct, as that struct, and the other options."""
    own = {name: given[name] for name in kind.__struct_fields__ if name in given}
    return kind(**own), {name: value for name, value in given.items() if name not in own}


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """Options named after settings (`budget__time` for `budget.time`), as changes to settings; None is not given."""
    return {name.replace("__", "."): value for name, value in given.items() if value is not None}


def json_text(value: object) -> str:
    """JSON as the commands print it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
