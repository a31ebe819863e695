"""The shape of the code, counted: how large files and functions are, what they import, what things are called."""

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from genepool.population import Population

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "genepool"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
LENGTHS = {path: len(path.read_text().splitlines()) for path in FILES}
PROSE = [*FILES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]

# Words that we gave up, each with the one that replaced it. `Population.finish` is an operation of the store.
GIVEN_UP = {
    "crew": "worker pool",
    "errand": "worker options",
    "labour": "worker process",
    "champion": "best",
    "epoch": "claim",
    "diary": "log",
    "standing": "status",
    "bulletin": "status feed",
    "watchman": "monitor",
    "exam": "harness",
    "eve": "final phase",
    "planning": "training budget",
    "pace": "step count",
    "course": "current rules",
    "anew": "again",
    "mend": "fix",
    "whole": "atomic",
    "door": "API",
    "price": "step time",
    "cost": "requirements",
}
TRANSLATED = re.compile(r"whoever|somebody|nobody|anybody|anew|the ordinary way|is told|mended", re.IGNORECASE)


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    return ((path, node) for path, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, kinds))


def words_of(name: str) -> set[str]:
    """The words in a name: `StepTime` and `step_time` have the same."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_"))


def test_each_folder_introduces_its_files():
    for path in FILES:
        if path.name != "__init__.py" or path.parent == PACKAGE:
            continue
        introduction = ast.get_docstring(TREES[path]) or ""
        files = {entry.stem for entry in path.parent.glob("*.py") if entry != path}
        missing = {name for name in files if not re.search(rf"^(?:\w+, )*{name}\b", introduction, re.MULTILINE)}
        assert not missing, f"{path.relative_to(ROOT)} does not introduce {sorted(missing)}"


def test_the_package_has_few_files_of_a_readable_length():
    # The tree was designed with 20 names; `layers` is the 21st and came later, with the kinds of layers.
    assert len([entry for entry in PACKAGE.iterdir() if not entry.name.startswith("__")]) <= 21
    # `layers` has a file per kind, and `export/foreign` reads other programs' formats: both grow with what they cover.
    assert len([path for path in FILES if path.parent.name not in ("layers", "foreign")]) <= 180
    assert 110 <= statistics.median(LENGTHS.values()) <= 200
    assert not {str(path.relative_to(ROOT)): length for path, length in LENGTHS.items() if length > 350}


def test_commands_only_parse_and_print():
    assert not [path.name for path in (PACKAGE / "cli").glob("*.py") if LENGTHS[path] > 150]


def test_no_function_takes_more_than_seven_parameters():
    def parameters(function: ast.FunctionDef) -> int:
        given = function.args
        names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        return len([name for name in names if name not in ("self", "cls")])

    functions = nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    assert not [f"{path.name}: {node.name}" for path, node in functions if parameters(node) > 7]


def test_functions_fit_on_a_screen():
    functions = nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    assert not [f"{path.name}: {node.name}" for path, node in functions if node.end_lineno - node.lineno >= 55]


def test_folders_are_used_by_their_public_names():
    across, past = 0, []
    for path, node in nodes(ast.ImportFrom):
        parts = (node.module or "").split(".")
        own = path.relative_to(PACKAGE).parts[0]
        if parts[0] != "genepool" or len(parts) < 2 or parts[1] == own or not (PACKAGE / parts[1]).is_dir():
            continue
        across += len(node.names)
        past += [f"{path.relative_to(PACKAGE)}: {node.module}.{alias.name}" for alias in node.names if len(parts) > 2]
    assert len(past) < 0.1 * across, past


def test_the_population_contract_is_narrow():
    assert len(Population.__abstractmethods__) <= 16


@pytest.mark.parametrize("word", GIVEN_UP)
def test_nothing_carries_a_name_that_we_gave_up(word):
    definitions = nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [f"{path.relative_to(ROOT)}: {node.name}" for path, node in definitions if word in words_of(node.name)]
    files = [str(path.relative_to(ROOT)) for path in FILES if word in words_of(path.stem)]
    assert not [*named, *files], f"use '{GIVEN_UP[word]}'"


def test_docstrings_are_sentences_of_their_own():
    """Not the tail of one that begins with the thing's name: "Of one training, at most"."""
    texts = ((path, node) for path, node in nodes(ast.Expr) if isinstance(node.value, ast.Constant))
    tails = [(path.name, node.lineno) for path, node in texts if re.match(r"Of\b", str(node.value.value))]
    assert not tails


def test_prose_does_not_read_as_translated():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in PROSE
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if TRANSLATED.search(line)
    ]
    assert len(found) < 15, found
