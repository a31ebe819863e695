"""The built page, and the export of a dashboard to one file, which opens without a server.

`make page` builds the three files of the page, which are part of a wheel but not of the repository.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from genepool.analysis import ancestor_rows
from genepool.dashboard import documents
from genepool.dashboard.experiments import ObservedExperiment, experiments_in, summary
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
MOST_DETAILS = 400
"""Individuals whose networks are in the file: the ancestors of the best, the living, and the best of the rest."""


def page() -> dict[str, str]:
    """The files of the page by name."""
    try:
        return {name: (FOLDER / name).read_text() for name in KINDS}
    except OSError:
        raise MissingDependencyError(
            "The dashboard's page has not been built: run `make page` in the checkout (it needs Node.js and npm), "
            "or install a released wheel, which carries it."
        ) from None


def export_page(place: Path, target: Path) -> int:
    """Write the file and return its size in bytes."""
    found = experiments_in(place)
    if not found:
        raise PopulationFormatError(f"There is no experiment in '{shown(place)}'; give an experiment or a folder.")
    contents: dict[str, Any] = {
        "/api": documents.about(control=False, single=len(found) == 1, name=shown(place.resolve().name)),
        "/api/experiments": {"experiments": [summary(one) for one in found]},
    }
    for one in found:
        with suppress(GenepoolError):  # it is listed with its fault
            contents |= _documents(ObservedExperiment(one))
    text = _in_one(contents)
    try:
        target.write_text(text)
    except OSError as error:
        raise StorageError(f"The page cannot be written to '{shown(target)}': {error.strerror or error}.") from None
    return len(text.encode())


def _documents(one: ObservedExperiment) -> dict[str, Any]:
    one.observer.refresh()
    root = f"/api/experiments/{one.found.key}"
    found: dict[str, Any] = {
        root: documents.status(one.observer),
        f"{root}/individuals": documents.individuals(one.observer),
        f"{root}/records": documents.records(one.observer),
        f"{root}/workers": documents.workers(one.observer, one.workers),
    }
    chosen = _chosen(one)
    for identity in chosen:
        with suppress(ConcurrencyError, DataError, StorageError):
            found[f"{root}/individuals/{identity}"] = one.details.individual(identity)
    for identity in chosen[:40]:
        found[f"{root}/lineage/{identity}"] = one.details.lineage(identity)
    return found


def _chosen(one: ObservedExperiment) -> list[str]:
    """The best first, then its ancestors, then others by their fitness, the living before the dead."""
    table = one.observer.table
    fitness = np.nan_to_num(table.column("fitness"), nan=-1.0)
    order = np.lexsort((-fitness, table.column("state") != ord("A"))).tolist()
    line = ancestor_rows(table, order[0])[::-1] if order else []
    chosen = dict.fromkeys([*line[:MOST_DETAILS], *order[:MOST_DETAILS]])
    return [table.ids[row] for row in chosen][:MOST_DETAILS]


def _in_one(contents: dict[str, Any]) -> str:
    """The page and the data in one text; the data has no '<', so no text of an experiment can end its element."""
    files = page()
    data = msgspec.json.encode(contents).decode().replace("<", "\\u003c")
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
