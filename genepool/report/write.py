"""Writes a report into a folder: the same experiment or study gives the same files."""

from __future__ import annotations

from pathlib import Path

from genepool.errors import PopulationFormatError, StorageError, shown
from genepool.experiment import Experiment
from genepool.report.experiment import experiment_document
from genepool.report.forms import html_page, markdown
from genepool.report.study import study_document
from genepool.study.run import PLAN
from genepool.whole import write_whole

FOLDER = "report"


def write_report(place: Path, out: Path | None = None) -> Path:
    """Of an experiment's directory or a study's folder; gives back the page."""
    is_study = (place / PLAN).is_file()
    if not is_study and not (place / "experiment.json").is_file():
        raise PopulationFormatError(
            f"'{shown(place)}' is neither an experiment nor a study; give the directory of one."
        )
    folder = out if out is not None else place / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        document = study_document(place, folder) if is_study else experiment_document(Experiment.open(place), folder)
        page = folder / "report.html"
        for path, text in ((folder / "report.md", markdown(document)), (page, html_page(document, folder))):
            write_whole(path, text.encode())
    except OSError as error:
        raise StorageError(f"The report cannot be written to '{shown(folder)}': {error.strerror or error}.") from None
    return page
