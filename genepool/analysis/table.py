"""All individuals of an experiment as columns of numbers: about 350 bytes per row, whatever the networks are.

A row keeps its number. Every change gets the next sequence number, so a client that has seen the changes up to one
number receives only later ones.
"""

from collections import Counter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.analysis.reader import BriefBirth, BriefMetrics, BriefResult, Seen
from genepool.layers import is_convolution
from genepool.population import Birth, Place, Result, State, worker_of

NAN = float("nan")
SEVERAL = "several"  # stands for the mutation's name if there was more than one
OTHERS = "others"  # stands for all texts beyond the first few thousand
_FIRST_CAPACITY, _MOST_NAMES, _LARGEST_FILE = 1024, 4096, 2**50

_COLUMNS: dict[str, tuple[type[np.generic], float]] = {
    "state": (np.uint8, 0),  # the letter of population.State
    "failed": (np.bool_, False),  # there is a reason why it could not be trained
    **dict.fromkeys(("mutation", "worker"), (np.uint16, 0)),
    **dict.fromkeys(("claim", "version"), (np.uint32, 0)),
    **dict.fromkeys(("parent", "log"), (np.int32, -1)),
    **dict.fromkeys(("depth", "length"), (np.int32, 0)),
    **dict.fromkeys(("bytes", "start", "sequence"), (np.int64, 0)),
    **dict.fromkeys(("born", "finished", "fitness", "accuracy", "learning_rate"), (np.float64, NAN)),
    # `executed` is the part of the FLOPs that the attempt which counts executed itself.
    **dict.fromkeys(("seconds", "stepping", "flops", "executed", "parameters"), (np.float64, 0)),
    # How far the experiment was when the individual finished; until then, when it was born.
    **dict.fromkeys(("elapsed", "spent"), (np.float64, 0)),
    "rank": (np.int32, 0),
}


class Names:
    """Texts by number; the first one is empty. After a few thousand, all further ones share a number."""

    def __init__(self) -> None:
        self.texts = [""]
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        """The number of a text, which is the same each time."""
        known = self._numbers.get(text)
        if known is None:
            if len(self.texts) > _MOST_NAMES:
                return self.number(OTHERS)
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text[:200])
        return known


class Progress(NamedTuple):
    """How far the experiment was at each individual that became alive, in that order."""

    rows: NDArray[np.int64]
    finished: NDArray[np.float64]  # wall clock time
    elapsed: NDArray[np.float64]  # seconds during which at least one individual was in training; pauses do not count
    spent: NDArray[np.float64]  # FLOPs of this individual and all before it
    fitness: NDArray[np.float64]
    best: NDArray[np.float64]  # the highest fitness so far
    is_record: NDArray[np.bool_]  # whether the fitness is higher than that of all before

    def at(self, moment: float) -> int:
        """The number of individuals that had become alive by a wall clock time."""
        return int(np.searchsorted(self.finished, moment, side="right"))


class Table:
    """The rows by number and by ID."""

    def __init__(self) -> None:
        self._capacity = _FIRST_CAPACITY
        self._columns = {name: np.full(self._capacity, empty, kind) for name, (kind, empty) in _COLUMNS.items()}
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self.mutations, self.workers = Names(), Names()
        self.sequence = 0
        self._logs: dict[str, int] = {}
        self._orphans: dict[int, str] = {}  # IDs of parents that have no row yet

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[Any]:
        """One column of all rows; a view that is stale after the next new row."""
        return self._columns[name][: len(self.ids)]

    def get(self, row: int, name: str) -> Any:
        return self._columns[name][row].item()

    def add(self, identity: str) -> int:
        """Append a row and return its number."""
        row = len(self.ids)
        if row == self._capacity:
            self._grow()
        self.ids.append(identity)
        self.rows[identity] = row
        return row

    def _grow(self) -> None:
        for name, (kind, empty) in _COLUMNS.items():
            more = np.full(2 * self._capacity, empty, kind)
            more[: self._capacity] = self._columns[name]
            self._columns[name] = more
        self._capacity *= 2

    def put(self, row: int, **values: float) -> None:
        """Change some values of a row."""
        self.sequence += 1
        for name, value in values.items():
            self._columns[name][row] = value
        self._columns["sequence"][row] = self.sequence

    def take(self, seen: Seen) -> None:
        """Enter what was read about an individual."""
        individual, birth, result, place = seen
        row = self.rows.get(individual.id)
        if row is None and birth is None and result is None:
            return  # in quarantine, and never readable
        values: dict[str, float] = {"state": ord(individual.state.value), "claim": individual.claim}
        if birth is not None:
            mutation = SEVERAL if len(birth.mutations) > 1 else "".join(birth.mutations)
            values |= {**_birth_values(birth), "mutation": self.mutations.number(mutation)}
        if result is not None:
            values |= {**_result_values(result), "worker": self.workers.number(worker_of(result.attempt))}
        elif individual.state is State.TRAINING:
            values["worker"] = self.workers.number(individual.owner)
        if place is not None:
            log = self._logs.setdefault(place.path, len(self._logs))
            values |= {"log": log, "start": place.start, "length": place.length}
        row = self.add(individual.id) if row is None else row
        self.put(row, **values)
        if birth is not None and birth.parents and self.get(row, "parent") < 0:
            self._orphans[row] = birth.parents[0]

    def place(self, row: int) -> Place | None:
        """Where the individual's record is in an archive, or None if it is not archived."""
        number = self.get(row, "log")
        return None if number < 0 else Place(list(self._logs)[number], self.get(row, "start"), self.get(row, "length"))

    def settle(self) -> None:
        """Update the columns that depend on other rows; to be called after a pass of the reader."""
        for row, parent in list(self._orphans.items()):
            number = self.rows.get(parent)
            if number is not None:
                self.put(row, parent=number)
                del self._orphans[row]
        done = self.progress()
        places = np.searchsorted(done.finished, np.nan_to_num(self.column("born")), side="right")
        places[done.rows] = np.arange(1, len(done.rows) + 1)
        new = {"elapsed": done.elapsed, "spent": done.spent, "rank": np.arange(1, len(done.rows) + 1)}
        values = {name: np.concatenate([[0], column])[places] for name, column in new.items()}
        (changed,) = np.nonzero(np.any([self.column(name) != values[name] for name in values], axis=0))
        for name in values:
            self.column(name)[changed] = values[name][changed]
        self.column("sequence")[changed] = self.sequence + 1 + np.arange(len(changed))
        self.sequence += len(changed)

    def changed_since(self, sequence: int, most: int) -> NDArray[np.int64]:
        """The rows that were changed after a sequence number, earliest change first, and at most `most` of them."""
        changes = self.column("sequence")
        (rows,) = np.nonzero(changes > sequence)
        return rows[np.argsort(changes[rows], kind="stable")][:most]

    def finished_rows(self) -> NDArray[np.int64]:
        """The individuals that became alive, in that order; by ID if they did so at the same time."""
        finished = self.column("finished")
        (rows,) = np.nonzero(~np.isnan(self.column("fitness")))
        rows = rows[np.argsort(finished[rows], kind="stable")]
        same = np.diff(finished[rows], prepend=NAN, append=NAN) == 0
        tied = same[1:] | same[:-1]  # only these few are compared one by one
        rows[tied] = sorted(rows[tied], key=lambda row: (finished[row], self.ids[row]))
        return rows

    def progress(self) -> Progress:
        rows = self.finished_rows()
        finished, fitness = self.column("finished")[rows], self.column("fitness")[rows]
        best = np.maximum.accumulate(fitness)
        before = np.concatenate([[fitness.min(initial=0.0)], best[:-1]])[: len(rows)]
        return Progress(
            rows=rows, finished=finished, elapsed=elapsed(finished - self.column("seconds")[rows], finished),
            spent=np.cumsum(self.column("flops")[rows]), fitness=fitness, best=best, is_record=fitness > before,
        )  # fmt: skip

    def best(self) -> int | None:
        """The living individual of highest fitness; of several, the first that reached it."""
        fitness = np.where(self.column("state") == ord(State.ALIVE.value), self.column("fitness"), np.nan)
        if np.isnan(fitness).all():
            return None
        highest, finished = np.nonzero(fitness == np.nanmax(fitness))[0], self.column("finished")
        return int(min(highest, key=lambda row: (finished[row], self.ids[row])))


def elapsed(starts: NDArray[np.float64], stops: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds covered by at least one interval, by the end of each; the intervals are sorted by their ends."""
    began = np.minimum.accumulate(starts[::-1])[::-1]  # the earliest start of this one and all that end later
    previous = np.concatenate([[-np.inf], stops[:-1]])[: len(stops)]
    return np.cumsum(np.clip(stops - np.maximum(began, previous), 0.0, None))


class _Edge(msgspec.Struct):
    type: str


class _DNA(msgspec.Struct):
    learning_rate: float = NAN
    edges: list[_Edge] = []


_dna = msgspec.json.Decoder(_DNA)


def _birth_values(birth: Birth | BriefBirth) -> dict[str, float]:
    try:
        dna = _dna.decode(birth.dna)
    except (msgspec.MsgspecError, RecursionError):  # the individual is shown without its network
        dna = _DNA()
    kinds = Counter(edge.type for edge in dna.edges)
    return {
        "born": birth.created,
        "version": min(max(birth.settings_version, 0), 2**31),
        "learning_rate": float(f"{dna.learning_rate:.6g}"),
        "depth": sum(count for kind, count in kinds.items() if is_convolution(kind)),
    }


def _result_values(result: Result | BriefResult) -> dict[str, float]:
    metrics = result.metrics
    if not isinstance(metrics, BriefMetrics):
        try:
            metrics = msgspec.convert(dict(metrics), BriefMetrics, strict=False)
        except msgspec.ValidationError:  # written by another evaluator
            metrics = BriefMetrics()
    return {
        "fitness": result.fitness,
        "accuracy": result.fitness if metrics.accuracy is None else metrics.accuracy,
        "finished": result.finished,
        **{name: getattr(metrics, name) for name in ("seconds", "stepping", "flops", "parameters")},
        "executed": metrics.flops - metrics.resumed * metrics.flops_training,
        "failed": metrics.reason is not None,
        "bytes": sum(min(max(file.size, 0), _LARGEST_FILE) for file in result.files.values()),
    }
