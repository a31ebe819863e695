"""What became of an experiment, as plain rows: read from its directory, never written into it."""

from genepool.analysis.history import History, Row
from genepool.analysis.lineage import Ancestor, Change, Mark, lineage, marks
from genepool.analysis.pareto import Point, front
from genepool.analysis.progress import Box, Diagram, Dot, chain, diagram, dots, four_ancestors
from genepool.analysis.spending import (
    RECENT,
    Entry,
    Interval,
    Ledger,
    Overhead,
    Stopwatch,
    overhead,
    overhead_by_worker,
    spending,
)

__all__ = [
    "History",
    "Row",
    "front",
    "Point",
    "lineage",
    "Ancestor",
    "Mark",
    "Change",
    "marks",
    "Ledger",
    "Entry",
    "Interval",
    "Stopwatch",
    "spending",
    "Overhead",
    "overhead",
    "overhead_by_worker",
    "RECENT",
    "Box",
    "Diagram",
    "Dot",
    "chain",
    "diagram",
    "dots",
    "four_ancestors",
]
