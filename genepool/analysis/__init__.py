"""What became of an experiment, as plain rows: read from its directory, never written into it."""

from genepool.analysis.history import History, Row
from genepool.analysis.lineage import Ancestor, lineage
from genepool.analysis.overhead import RECENT, Overhead, overhead, overhead_by_worker
from genepool.analysis.spending import Entry, Interval, Ledger, Stopwatch, spending

__all__ = [
    "History",
    "Row",
    "lineage",
    "Ancestor",
    "Ledger",
    "Entry",
    "Interval",
    "Stopwatch",
    "spending",
    "Overhead",
    "overhead",
    "overhead_by_worker",
    "RECENT",
]
