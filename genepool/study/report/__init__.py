"""Reports of experiments and studies, as HTML and Markdown.

document     a report as a value, and its two forms
experiment   the report of an experiment
study        the report of a study
figures      the figures and their rows
"""

from genepool.study.report.study import write_report

__all__ = ["write_report"]
