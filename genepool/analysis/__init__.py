"""The read model of an experiment: everything that is read from its directory and shown; nothing is ever written.

reader     reads what is new in a directory
table      all individuals as columns of numbers
spending   what an experiment has spent and reached, and the overhead
history    the complete records of all individuals, and the mutations that led to each
observer   one experiment under observation: its table, and single records on request
status     the status of an experiment and of its workers
progress   what the figures are drawn from; the Pareto front
"""

from genepool.analysis.history import (
    Ancestor,
    History,
    Row,
    ancestor_rows,
    ancestors,
    before_migration,
    chain,
    find,
    lineage,
)
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
from genepool.analysis.status import (
    Best,
    Rate,
    Records,
    Status,
    Terms,
    WorkerMonitor,
    WorkerStatus,
    records_of,
    status_of,
)
from genepool.analysis.table import Progress, Table

__all__ = [
    "History", "Row", "Observer", "Table", "Progress",
    "Ancestor", "ancestor_rows", "ancestors", "before_migration", "chain", "find", "lineage",
    "Annotation", "Change", "figure_annotations", "Box", "Diagram", "diagram", "four_ancestors", "Dot", "dots",
    "Point", "front",
    "Interval", "Ledger", "Overhead", "Stopwatch", "spending",
    "Best", "Rate", "Records", "Status", "Terms", "records_of", "status_of", "WorkerMonitor", "WorkerStatus",
]  # fmt: skip
