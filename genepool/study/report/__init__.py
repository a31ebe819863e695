"""Reports: what an experiment or a study found, as a page for a browser and a text, with their figures and rows."""

from genepool.study.report.study import write_report

__all__ = ["write_report"]
