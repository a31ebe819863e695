"""README, ARCHITECTURE.md and the other documents of the root are short, complete and link to files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "genepool"
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
MOST_FILES_OF_A_RUN = 45


def section(document, title):
    text = (ROOT / document).read_text()
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def files_of_the_tree():
    """Every Python file that the tree in ARCHITECTURE.md names, as a path within the package."""
    folders, found = [], []
    for line in section("ARCHITECTURE.md", "Tree").split("```")[1].splitlines():
        if not (entry := re.match(r"( *)(\S+)", line)):
            continue
        depth, name = len(entry[1]) // 2, entry[2]
        folders = folders[:depth]
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
        elif name.endswith(".py"):
            found.append("/".join([*folders[1:], name]))
    return found


def test_the_readme_is_about_900_words_long():
    assert 850 <= len((ROOT / "README.md").read_text().split()) <= 950


def test_the_readme_begins_with_two_commands_and_a_figure():
    beginning = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert "make demo" in beginning and "make test" in beginning and "![" in beginning


def test_the_architecture_is_at_most_1500_words_long():
    assert len((ROOT / "ARCHITECTURE.md").read_text().split()) <= 1500


def test_the_architecture_has_a_line_for_every_file():
    package = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    package = {name for name in package if not re.search(r"__\w+__\.py$", name)}
    wanted = {name for name in package if not name.startswith(("cli/", "layers/", "export/foreign/"))}
    assert sorted(files_of_the_tree()) == sorted(wanted)


def test_few_files_lead_from_the_command_to_a_trained_child():
    files = re.findall(r"`([a-z_/]+\.py)`", section("ARCHITECTURE.md", "From `genepool run` to a trained child"))
    assert 20 < len(set(files)) <= MOST_FILES_OF_A_RUN
    assert not [name for name in files if not (PACKAGE / name).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files(document):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / document).read_text())
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_documents_name_files_that_exist():
    """`folder/file.py` in prose: of the package, of the tests, or of the project."""
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in DOCUMENTS)]:
        named = re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|toml|yml|json))`", path.read_text())
        missing = [name for name in named if not any((base / name).exists() for base in (ROOT, PACKAGE))]
        assert not [name for name in missing if not name.startswith(("config/", "shirts/"))], path.name
