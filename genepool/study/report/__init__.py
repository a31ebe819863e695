"""Reports of experiments and studies, as HTML and Markdown.

document     a report as a value, and its two forms
experiment   the report of an experiment, its figures and their rows
study        the same for a study; the files of a report
"""

from genepool.study.report.study import write_report

__all__ = ["write_report"]
