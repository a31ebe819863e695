"""The generated part of the documentation site, built by `make docs`.

MkDocs calls the functions whose names begin with `on_`. They add pages (GENERATED), replace comments such as
`<!-- mutations -->` and `<!-- file examples/x.py -->` by tables and files, and remove the markers of code blocks that
only the tests read (`no-run`, `exits`, `file`; see tests/docs/test_blocks.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from msgspec.inspect import BoolType, DictType, FloatType, IntType, LiteralType
from pygments.formatters import HtmlFormatter

from genepool.cli import cli
from genepool.mutations import ELEVEN, MUTATIONS
from genepool.settings import FIELDS, PRESETS, SECTIONS, by_name, marked, meanings
from genepool.settings.sections import Field

ROOT = Path(__file__).parent.parent
STYLE = "h3 code { font-size: 1rem; }\ntd:first-child code { white-space: nowrap; }\n"
"""Messages in headings are as large as text, and names in tables are not wrapped."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Remove missing pages from the navigation."""
    docs = ROOT / "docs"
    here = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | set(GENERATED)
    config.nav = _present(config.nav or [], here)
    return config


def _present(nav: list[Any], here: set[str]) -> list[Any]:
    kept = []
    for entry in nav:
        [(title, target)] = entry.items()
        target = _present(target, here) if isinstance(target, list) else target
        if target in here if isinstance(target, str) else target:
            kept.append({title: target})
    return kept


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, write in GENERATED.items():
        files.append(File.generated(config, name, content=write()))
    files.append(File.generated(config, "style.css", content=STYLE + HtmlFormatter().get_style_defs(".highlight")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comments of a page and remove its markers."""
    for word, write in TABLES.items():
        markdown = markdown.replace(f"<!-- {word} -->", write())
    markdown = re.sub(r"<!-- file (\S+) -->", lambda found: _shown_file(found[1]), markdown)
    return re.sub(r"^```(\w+) .*$", r"```\1", markdown, flags=re.MULTILINE)


def _shown_file(name: str) -> str:
    return f"```python\n{(ROOT / name).read_text().rstrip()}\n```"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    """Escape bars, except in code, where a bar does not end a cell and a backslash would be visible."""
    return text if text.startswith("`") else text.replace("|", "\\|")


# -- the command line --------------------------------------------------------------------------------------------------


def command_line() -> str:
    """Every command with its arguments and options."""
    intro = (
        "# Command line\n\n"
        "Exit codes: 0 for success; 1 for a negative answer (`check`, `doctor`, `replay`, `predict`) or a bug; 2 for\n"
        "bad input, with one sentence on standard error; 130 after Ctrl-C without a result.\n"
        "`genepool COMMAND --help` prints the same text."
    )
    return "\n\n".join([intro, *_commands(cli, click.Context(cli, info_name="genepool"))])


def _commands(group: click.Group, above: click.Context) -> Iterator[str]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        ctx = click.Context(command, info_name=name, parent=above)
        yield _command(command, ctx)
        if isinstance(command, click.Group):
            yield from _commands(command, ctx)


def _command(command: click.Command, ctx: click.Context) -> str:
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    records = [p.get_help_record(ctx) for p in command.get_params(ctx) if isinstance(p, click.Option)]
    rows = [(f"`{names}`", text) for names, text in filter(None, records) if "--help" not in names]
    parts = [f"## {ctx.command_path}", f"```text\n{usage}\n```", inspect.cleandoc(command.help or "")]
    return "\n\n".join([*parts, *([_table(("option", "meaning"), rows)] if rows else [])])


# -- settings and presets ----------------------------------------------------------------------------------------------


def settings_page() -> str:
    """Every setting by section, with meaning, bounds and preset values, and the departures from the paper."""
    intro = (
        "# Settings\n\n"
        "A setting has one name everywhere: `section.name` on the command line (`--set training.steps=500`,\n"
        "`genepool set DIR training.steps=500`), in Python and in records; in TOML files (`--config`) a section is a\n"
        "table. `none` means: not given, or no limit. The defaults are the preset `paper`; an empty cell means: as in\n"
        "`paper`. Settings marked *fixed* cannot change after the experiment was created; all others can change while\n"
        "it runs."
    )
    parts = [intro]
    for section, struct in SECTIONS.items():
        names = [name for name in FIELDS if name.startswith(f"{section}.")]
        rows = [(f"`{name}`", meanings()[name], _bounds(FIELDS[name]), *_values(name)) for name in names]
        header = ("setting", "meaning", "allowed", *PRESETS)
        parts += [f"## {section}", inspect.cleandoc(struct.__doc__ or ""), _table(header, rows)]
    return "\n\n".join([*parts, "## Departures from the paper", departures_table()])


def _bounds(field: Field) -> str:
    """The values that a setting can have."""
    match field.kind:
        case LiteralType():
            words = ", ".join(f"`{value}`" for value in field.kind.values)
        case IntType() | FloatType():
            low = f"from {field.kind.ge:g}" if field.kind.ge is not None else f"above {field.kind.gt:g}"
            words = f"{low} to {field.kind.le:g}"
        case BoolType():
            words = "on, off"
        case DictType():
            words = "a table"
        case _:
            words = "a text"
    return words + (" or none" if field.optional else "") + ("; *fixed*" if field.fixed else "")


def _values(name: str) -> tuple[str, ...]:
    paper, *others = (by_name(settings)[name] for settings in PRESETS.values())
    return _shown(paper), *("" if value == paper else _shown(value) for value in others)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "[by name](../guide/concepts.md#mutations)"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"`{value}`"


def presets_table() -> str:
    """The settings in which the presets differ."""
    rows = [(f"`{name}`", *_values(name)) for name in FIELDS if any(_values(name)[1:])]
    return _table(("setting", *PRESETS), rows)


def departures_table() -> str:
    """Every setting that can depart from the paper, with its value in each preset."""
    rows = [(f"`{name}`", meanings()[name], *_values(name)) for name in marked()]
    return _table(("setting", "departure", *PRESETS), rows)


def mutations_table() -> str:
    """Every built-in mutation, the paper's first."""
    laptop = PRESETS["laptop"].breeding.odds or {}
    names = [*ELEVEN, *(name for name in MUTATIONS if name not in ELEVEN)]
    rows = [
        (
            f"`{name}`",
            " ".join((MUTATIONS.get(name).__doc__ or "").split()),
            "1" if name in ELEVEN else "-",
            f"{laptop[name]:g}" if name in laptop else "-",
        )
        for name in names
    ]
    return _table(("mutation", "what it does", "odds in all other presets", "odds in `laptop`"), rows)


# -- what lies beside the documentation --------------------------------------------------------------------------------


def architecture() -> str:
    """ARCHITECTURE.md."""
    return _from_root("ARCHITECTURE.md")


def changelog() -> str:
    """CHANGELOG.md."""
    return _from_root("CHANGELOG.md")


def _from_root(name: str) -> str:
    """A document of the project's root, with its links as they are in the site."""
    text = (ROOT / name).read_text()
    return text.replace("](docs/", "](").replace("](ARCHITECTURE.md", "](architecture.md")


GENERATED: dict[str, Callable[[], str]] = {
    "reference/cli.md": command_line,
    "reference/settings.md": settings_page,
    "architecture.md": architecture,
    "changelog.md": changelog,
}
TABLES: dict[str, Callable[[], str]] = {
    "mutations": mutations_table,
    "presets": presets_table,
    "departures": departures_table,
}
