"""The built page, and the dashboard in one file that opens without a server.

The page as `make page` builds it: three files beside this one, which a wheel carries and the repository does not.

The dashboard in one file: the page, and the API's documents as they are now. Opens without a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from genepool.dashboard import documents
from genepool.dashboard.experiments import Watched, experiments_in, summary
from genepool.dashboard.status import standing
from genepool.errors import (
    ConcurrencyError,
    DataError,
    GenepoolError,
    MissingDependencyError,
    PopulationFormatError,
    StorageError,
    shown,
)

FOLDER = Path(__file__).parent / "static"
KINDS = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}


def page() -> dict[str, str]:
    """The files by name."""
    try:
        return {name: (FOLDER / name).read_text() for name in KINDS}
    except OSError:
        raise MissingDependencyError(
            "The dashboard's page has not been built: run `make page` in the checkout (it needs Node.js and npm), "
            "or install a released wheel, which carries it."
        ) from None


MOST_DETAILS = 400
"""Individuals whose networks are in the file: the best one's ancestors, the living, and the best of the rest."""


def export(place: Path, target: Path) -> int:
    """Writes the file; how many bytes it has."""
    found = experiments_in(place)
    if not found:
        raise PopulationFormatError(f"There is no experiment in '{shown(place)}'; give an experiment or a folder.")
    documents: dict[str, Any] = {
        "/api": documents.about(control=False, single=len(found) == 1, name=shown(place.resolve().name)),
        "/api/experiments": {"experiments": [summary(one) for one in found]},
    }
    for one in found:
        try:
            documents |= _documents(Watched(one))
        except GenepoolError:
            continue  # it is listed, with what is wrong with it
    text = _in_one(documents)
    try:
        target.write_text(text)
    except OSError as error:
        raise StorageError(f"The page cannot be written to '{shown(target)}': {error.strerror or error}.") from None
    return len(text.encode())


def _documents(one: Watched) -> dict[str, Any]:
    one.reader.refresh()
    root = f"/api/experiments/{one.found.key}"
    found: dict[str, Any] = {
        root: standing(one.reader),
        f"{root}/individuals": documents.individuals(one.reader),
        f"{root}/curve": documents.curve(one.reader),
        f"{root}/workers": one.crew.crew(),
    }
    chosen = _chosen(one)
    for identity in chosen:
        try:
            found[f"{root}/individuals/{identity}"] = one.details.individual(identity)
        except (ConcurrencyError, DataError, StorageError):
            continue
    for identity in chosen[:40]:
        found[f"{root}/lineage/{identity}"] = one.details.lineage(identity)
    return found


def _chosen(one: Watched) -> list[str]:
    """The best first, then its ancestors, then others by their fitness, the living before the dead."""
    table = one.reader.table
    fitness = np.nan_to_num(table.column("fitness"), nan=-1.0)
    order = np.lexsort((-fitness, table.column("state") != ord("A")))
    chosen: dict[str, None] = {}
    if len(order):
        row = int(order[0])
        while row >= 0 and table.ids[row] not in chosen and len(chosen) < MOST_DETAILS:
            chosen[table.ids[row]] = None
            row = table.get(row, "parent")
    for row in order[:MOST_DETAILS]:
        chosen[table.ids[int(row)]] = None
    return list(chosen)[:MOST_DETAILS]


def _in_one(documents: dict[str, Any]) -> str:
    """No text of an experiment can end the element that it stands in: there is no '<' in the data."""
    files = page()
    data = msgspec.json.encode(documents).decode().replace("<", "\\u003c")
    script = files["page.js"].replace("</script", "<\\/script")
    parts = {
        '<link rel="stylesheet" href="page.css">': f"<style>{files['page.css']}</style>",
        '<script type="module" src="page.js"></script>': (
            f'<script type="application/json" id="documents">{data}</script><script type="module">{script}</script>'
        ),
    }
    html = files["index.html"]
    for old, new in parts.items():
        if old not in html:
            raise PopulationFormatError("The built page is from another release; run `make page` again.")
        html = html.replace(old, new)
    return html
