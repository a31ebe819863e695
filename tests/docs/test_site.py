"""`make docs` builds the site without a warning, and its reference pages are generated from the program."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import genepool
from genepool.cli import COMMANDS
from genepool.mutations import MUTATIONS
from genepool.settings import FIELDS, PRESETS, by_name

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def headings(site, page):
    text = (site / page).read_text()
    return {
        re.sub(r"<[^>]+>|&para;", "", found).strip()
        for found in re.findall(r"<h[23][^>]*>(.*?)</h[23]>", text, re.DOTALL)
    }


def test_every_command_is_in_the_reference(site):
    assert headings(site, "reference/cli.html") >= {f"genepool {name}" for name in COMMANDS}
    assert "--max-milliseconds" in (site / "reference/cli.html").read_text()


def test_every_public_name_has_its_docstring_in_the_reference(site):
    text = (site / "reference/python-api.html").read_text()
    for name in set(genepool.__all__) - {"Settings"}:
        assert f'id="genepool.{name}"' in text, name
    shown = html.unescape(re.sub(r"<[^>]+>", "", text))
    assert genepool.TrainedModel.__doc__.splitlines()[0].partition("`")[0] in shown


def test_every_setting_has_its_meaning_and_departures_are_in_one_table(site):
    text = (site / "reference/settings.html").read_text()
    tables, _, departures = text.partition('id="departures-from-the-paper"')
    for name in FIELDS:
        cells = rf"<td><code>{re.escape(name)}</code></td>\s*<td>(.*?)</td>\s*<td>(.*?)</td>"
        [(meaning, allowed)] = re.findall(cells, tables, re.DOTALL)
        assert meaning and allowed, name
        assert (f"<td><code>{name}</code></td>" in departures) == ("iffers from the paper" in meaning), name


def test_the_concepts_have_every_mutation_and_every_difference_between_presets(site):
    text = (site / "guide/concepts.html").read_text()
    assert all(f"<td><code>{name}</code></td>" in text for name in MUTATIONS)
    paper, laptop = by_name(PRESETS["paper"]), by_name(PRESETS["laptop"])
    for name in (name for name in paper if paper[name] != laptop[name]):
        assert f"<td><code>{name}</code></td>" in text, name


def test_markers_for_tests_are_not_shown(site):
    pages = [path.read_text() for path in site.rglob("*.html")]
    assert len(pages) > 10
    for leftover in ("no-run", "```", "<!-- mutations", "<!-- file", "\\|"):
        assert not [text for text in pages if leftover in text], leftover


def test_the_site_loads_nothing_from_other_servers(site):
    for path in site.rglob("*.html"):
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]*"', path.read_text())
