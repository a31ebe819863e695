"""Every code block of the documentation runs and prints what the page shows.

A block's first line has a marker for these tests:

    ```console                       every `$ ` line must succeed and print the lines below it, in this order
    ```console exits 2               every line must end with this exit code instead
    ```console no-run: the reason    is only parsed, like all blocks of PARSED_ONLY and the README
    ```python                        runs
    ```toml file plan.toml           is written to this file

Numbers and IDs in shown lines stand for any others; `...` stands for anything.
"""

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from genepool.cli import cli
from tests.support.in_process import genepool
from tests.support.photographs import photographs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ORDER = (
    "guide/quickstart", "guide/models", "guide/pretrained", "guide/concepts", "reference/store", "guide/reproducing",
    "guide/write-a-mutation", "guide/write-a-layer", "guide/performance", "reference/python-api",
    "guide/troubleshooting",
)  # fmt: skip
"""Later pages use files that earlier ones made, as readers do."""
PARSED_ONLY = ("guide/dashboard", "guide/cluster", "design/scaling")
"""These need a browser or other machines."""
SMALL = (
    (r"--time \d+[smh]", "--set budget.time=none --individuals 5 --steps 10 --workers 1"),
    (
        r'time="\d+[smh]"',
        'time=None, settings={"budget.individuals": 5, "workers.count": 1, "training_budget.share": None, '
        '"final_phase.share": 0, "training.steps": 10}',
    ),
)
"""Budgets of time, made small and independent of how busy the machine is."""
MOST_UNRUN = 12

BLOCK = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*(\.\d+)?(e-?\d+)?")
IDENTITY = re.compile(r"\b[0-9a-hjkmnp-tv-z]{25}\b")


class Block(NamedTuple):
    place: str
    language: str
    words: str
    text: str


class Command(NamedTuple):
    line: str
    shown: list[str]


def blocks(path):
    text = path.read_text()
    for found in BLOCK.finditer(text):
        place = f"{path.name}:{text.count(chr(10), 0, found.start()) + 1}"
        yield Block(place, found[1], found[2] or "", found[3])


def commands(block):
    found = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif found:
            found[-1].shown.append(line)
    return found


def name_of(page):
    return page.relative_to(DOCS).with_suffix("").as_posix()


PAGES = sorted(path for path in DOCS.rglob("*.md") if name_of(path) not in PARSED_ONLY)
ALL = [block for name in ORDER for block in blocks(DOCS / f"{name}.md")]
RUN = [block for block in ALL if not block.words.startswith("no-run")]


def test_every_page_with_blocks_has_its_place_in_the_order():
    assert {name_of(path) for path in PAGES if list(blocks(path))} == set(ORDER)


def test_few_blocks_are_not_run_and_each_says_why():
    unrun = [block for block in ALL if block not in RUN]
    assert len(unrun) <= MOST_UNRUN
    assert all(re.fullmatch(r"no-run: .{10,}", block.words) for block in unrun)
    assert all(re.fullmatch(r"|exits \d|file [\w.-]+", block.words) for block in RUN)
    assert all(block.text.startswith("$ ") for block in ALL if block.language == "console")


@pytest.fixture
def folder(tmp_path):
    """A folder with some photographs and the examples."""
    place = tmp_path / "reader"
    photographs(place / "photos" / "birds", crops=18)
    (place / "holiday").mkdir()
    shutil.copy(next((place / "photos" / "birds" / "temple").glob("*.jpg")), place / "holiday" / "one.jpg")
    shutil.copytree(ROOT / "examples", place / "examples")
    return place


FIRST = [block for block in blocks(DOCS / f"{ORDER[0]}.md") if block in RUN]


@pytest.mark.parametrize("run", [FIRST, pytest.param(RUN, marks=pytest.mark.thorough)], ids=[ORDER[0], "all pages"])
def test_every_block_runs_and_prints_what_is_shown(run, folder):
    assert run
    faults = [fault for block in run for fault in tried(block, folder)]
    assert not faults, "\n\n".join(faults)


def tried(block, folder):
    """One sentence per difference from the page."""
    if block.language == "console":
        wanted = int(block.words.removeprefix("exits ") or 0)
        for command in commands(block):
            code, printed = typed(small(command.line), folder)
            missing = first_missing(command.shown, printed.splitlines())
            if code != wanted:
                yield f"{block.place}: `{command.line}` ended with {code}:\n{printed}"
            elif missing is not None:
                yield f"{block.place}: `{command.line}` did not print '{missing}', but:\n{printed}"
    elif block.words.startswith("file "):
        (folder / block.words.removeprefix("file ")).write_text(block.text)
    elif block.language == "python":
        done = run([sys.executable, "-c", small(block.text)], folder)
        if done.returncode:
            yield f"{block.place}: it ended with {done.returncode}:\n{done.stdout}"


def typed(line, folder):
    """Run commands of Genepool in this process, unless they load plugins, which would stay; others in a shell."""
    words = shlex.split(line, comments=True)
    if words[0] == "genepool" and "--plugin" not in words:
        said = genepool(*words[1:], cwd=folder)
        return said.returncode, said.output
    done = run(["sh", "-c", line], folder)
    return done.returncode, done.stdout


def run(words, folder):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def small(text):
    for pattern, budget in SMALL:
        text = re.sub(pattern, budget, text)
    return text


def first_missing(shown, printed):
    """The first shown line that is not printed after the one before it; None if all are."""
    rest = iter([plain(line) for line in printed])
    for line in shown:
        if line.strip() == "...":
            continue
        pattern = re.compile(re.escape(plain(line)).replace(r"\.\.\.", ".*"))
        if not any(pattern.fullmatch(candidate) for candidate in rest):
            return line
    return None


def plain(line):
    """The line without what differs between runs."""
    return " ".join(NUMBER.sub("0", IDENTITY.sub("ID", line)).split())


def test_shown_lines_are_looked_for_in_their_order():
    printed = ["best 84.3 %", "parameters   28,010", "model shirts/best/weights"]
    assert first_missing(["best 80.1 %", "...", "model  shirts/best/..."], printed) is None
    assert first_missing(["parameters 1", "best 84.3 %"], printed) == "best 84.3 %"
    assert first_missing(["worst 84.3 %"], printed) == "worst 84.3 %"


# -- blocks that are only parsed ---------------------------------------------------------------------------------------

UNRUN = [
    *(block for block in ALL if block not in RUN),
    *blocks(ROOT / "README.md"),
    *(block for name in PARSED_ONLY if (DOCS / f"{name}.md").exists() for block in blocks(DOCS / f"{name}.md")),
]


def parse(group, ctx, words):
    """Parse with click, including all options, without running the command."""
    name, command, rest = group.resolve_command(ctx, words)
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        parse(command, click.Context(command, info_name=name, parent=ctx), rest)
    else:
        command.make_context(name, list(rest), parent=ctx)


@pytest.mark.parametrize(
    "block", [block for block in UNRUN if block.language == "console"], ids=lambda block: block.place
)
def test_commands_that_are_not_run_can_be_parsed(block, monkeypatch):
    monkeypatch.setattr("genepool.registry.load", lambda names: None)
    for command in commands(block):
        for part in command.line.split("&&"):
            words = shlex.split(part, comments=True)
            if words[:1] == ["genepool"]:
                parse(cli, click.Context(cli, info_name="genepool"), words[1:])


def test_an_unknown_command_cannot_be_parsed():
    with pytest.raises(click.UsageError):
        parse(cli, click.Context(cli), ["run", "x", "--no-such-option"])
    with pytest.raises(click.UsageError):
        parse(cli, click.Context(cli), ["no-such-verb"])


@pytest.mark.parametrize(
    "block", [block for block in UNRUN if block.language == "python"], ids=lambda block: block.place
)
def test_python_that_is_not_run_imports_existing_names(block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert {alias.name for alias in node.names} <= {*dir(module), *getattr(module, "__all__", ())}


# -- messages of the program -------------------------------------------------------------------------------------------


def sentences():
    """Every string in the source, with an ellipsis for each placeholder."""
    for path in (ROOT / "genepool").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_sentences_in_troubleshooting_occur_in_the_source():
    page = (DOCS / "guide" / "troubleshooting.md").read_text()
    quoted = [sentence for _, sentence in re.findall(r"^### (`+)(.*)\1$", page, re.MULTILINE)]
    assert len(quoted) > 15
    known = set(sentences())
    assert not [sentence for sentence in quoted if sentence not in known]
