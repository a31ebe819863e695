"""The dashboard in one file: the page, and the API's documents as they are now. Opens without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from genepool.dashboard import api
from genepool.dashboard.assets import page
from genepool.dashboard.folder import Watched, experiments_in, summary
from genepool.dashboard.standing import standing
from genepool.errors import ConcurrencyError, DataError, GenepoolError, PopulationFormatError, StorageError, shown

MOST_DETAILS = 400
"""Individuals whose networks are in the file: the best one's ancestors, the living, and the best of the rest."""


def export(place: Path, target: Path) -> int:
    """Writes the file; how many bytes it has."""
    found = experiments_in(place)
    if not found:
        raise PopulationFormatError(f"There is no experiment in '{shown(place)}'; give an experiment or a folder.")
    documents: dict[str, Any] = {
        "/api": api.about(control=False, single=len(found) == 1, name=shown(place.resolve().name)),
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
    documents: dict[str, Any] = {
        root: standing(one.reader),
        f"{root}/individuals": api.individuals(one.reader),
        f"{root}/curve": api.curve(one.reader),
        f"{root}/workers": one.crew.crew(),
    }
    chosen = _chosen(one)
    for identity in chosen:
        try:
            documents[f"{root}/individuals/{identity}"] = one.details.individual(identity)
        except (ConcurrencyError, DataError, StorageError):
            continue
    for identity in chosen[:40]:
        documents[f"{root}/lineage/{identity}"] = one.details.lineage(identity)
    return documents


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
