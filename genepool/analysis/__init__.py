"""The read model of an experiment: everything that is read from its directory and shown; nothing is ever written."""

from genepool.analysis.history import History, Row
from genepool.analysis.lineage import Ancestor, ancestor_rows, ancestors, before_migration, chain, find, lineage
from genepool.analysis.observer import Observer
from genepool.analysis.progress import (
    Annotation,
    Box,
    Change,
    Diagram,
    Dot,
    Point,
    diagram,
    dots,
    figure_annotations,
    four_ancestors,
    front,
)
from genepool.analysis.spending import Interval, Ledger, Overhead, Stopwatch, spending
from genepool.analysis.status import Best, Rate, Records, Status, Terms, records_of, status_of
from genepool.analysis.table import Progress, Table
from genepool.analysis.workers import WorkerMonitor, WorkerStatus

__all__ = [
    "History", "Row", "Observer", "Table", "Progress",
    "Ancestor", "ancestor_rows", "ancestors", "before_migration", "chain", "find", "lineage",
    "Annotation", "Change", "figure_annotations", "Box", "Diagram", "diagram", "four_ancestors", "Dot", "dots",
    "Point", "front",
    "Interval", "Ledger", "Overhead", "Stopwatch", "spending",
    "Best", "Rate", "Records", "Status", "Terms", "records_of", "status_of", "WorkerMonitor", "WorkerStatus",
]  # fmt: skip
