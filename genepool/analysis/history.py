"""The complete records of all individuals that ever lived in an experiment, and the lineages in them."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

import msgspec

from genepool.analysis.reader import Reader, Seen
from genepool.analysis.spending import Interval, owners, spending, unfinished_flops
from genepool.analysis.table import Table
from genepool.dna import DNA, decode, rates_label
from genepool.errors import SettingsError, shown
from genepool.evaluation import Evaluation
from genepool.evolution import Spending
from genepool.population import Birth, DirectoryView, Fossil, Individual, Result, State

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one individual."""

    individual: Individual
    birth: Birth
    result: Result | None = None

    @property
    def id(self) -> str:
        return self.individual.id

    @property
    def state(self) -> State:
        return self.individual.state

    @property
    def fitness(self) -> float | None:
        return None if self.result is None else self.result.fitness

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the validation images; the fitness if the evaluator did not report an accuracy."""
        reported = None if self.result is None else self.result.metrics.get("accuracy")
        return float(reported) if isinstance(reported, int | float) else self.fitness

    @property
    def evaluation(self) -> Evaluation:
        """The result of the training; a fitness of 0 and nothing else if it was never finished."""
        if self.result is None:
            return Evaluation(fitness=0.0)
        try:
            return msgspec.convert({**self.result.metrics, "fitness": self.result.fitness}, Evaluation)
        except msgspec.ValidationError:  # written by another release or another evaluator
            return Evaluation(fitness=self.result.fitness)

    @property
    def dna(self) -> DNA:
        return decode(bytes(self.birth.dna))


class History:
    """The rows of an experiment by ID; `refresh` brings them up to date."""

    def __init__(self, view: DirectoryView) -> None:
        self._view, self._reader = view, Reader(view, fossil=Fossil)
        self._unfinished = 0.0
        self.rows: dict[str, Row] = {}
        self.table = Table()

    def refresh(self) -> None:
        """Read what is new since the last call."""
        for seen in self._reader.changes():
            self._take(seen)
        self._unfinished = unfinished_flops(self.table, self._view.executed(), owners(self._reader.sweep))

    def _take(self, seen: Seen) -> None:
        individual = seen.individual
        self.table.take(seen)
        if individual.state is State.QUARANTINED:  # damaged, and so no longer an individual to count on
            self.rows.pop(individual.id, None)
            return
        known = self.rows.get(individual.id)
        birth = cast(Birth, seen.birth or (known and known.birth))
        result = cast("Result | None", seen.result or (known and known.result))
        self.rows[individual.id] = Row(individual=individual, birth=birth, result=result)

    def finished(self) -> list[Row]:
        """The individuals that became alive, in that order."""
        return self._at(self.table.finished_rows())

    def records(self) -> list[Row]:
        """The individuals whose fitness was higher than that of all before."""
        progress = self.table.progress()
        return self._at(progress.rows[progress.is_record])

    def _at(self, numbers: Iterable[int]) -> list[Row]:
        return [self.rows[self.table.ids[number]] for number in numbers if self.table.ids[number] in self.rows]

    def spending(self, *, also: Interval | None = None) -> Spending:
        """What they spent and reached, with the time of a run in progress."""
        return spending(self.table, also, self._unfinished)

    def best(self) -> Row | None:
        """The living individual of highest fitness; of several, the first that reached it."""
        row = self.table.best()
        return None if row is None else self.rows[self.table.ids[row]]


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the chain; the keys of its JSON form are documented."""

    id: str
    mutations: tuple[str, ...]  # the mutations that made it from its parent; none for the first
    second: str = ""  # the ID of the second parent, if there are two
    fitness: float | None
    accuracy: float | None  # the accuracy on the validation images
    learning_rate: float
    body_rate: float = 1.0  # the learning rate of all layers but the classifier, as a fraction of it
    parameters: int
    state: str
    network: str  # the architecture in one line

    @property
    def rates(self) -> str:
        return rates_label(self.learning_rate, self.body_rate)


def chain(start: T, parent: Callable[[T], T | None]) -> list[T]:
    """`start` and its ancestors by first parents, earliest first up to a repeat: damaged records may form a cycle."""
    found: dict[T, None] = {}
    here: T | None = start
    while here is not None and here not in found:
        found[here] = None
        here = parent(here)
    return list(found)[::-1]


def ancestors(rows: Mapping[str, Row], identity: str) -> list[Row]:
    """The known ancestors of an individual, the earliest first, and the individual itself."""

    def parent(child: str) -> str | None:
        parents = rows[child].birth.parents
        return parents[0] if parents and parents[0] in rows else None

    return [rows[name] for name in chain(identity, parent)] if identity in rows else []


def ancestor_rows(table: Table, row: int) -> list[int]:
    """The same by row numbers of a table."""

    def parent(child: int) -> int | None:
        number: int = table.get(child, "parent")
        return number if number >= 0 else None

    return chain(row, parent)


def lineage(rows: Mapping[str, Row], identity: str) -> list[Ancestor]:
    """From the first network to this one, along first parents."""
    line = ancestors(rows, find(rows, identity).id)
    return [*before_migration(line[0]), *map(_ancestor, line)]


def before_migration(row: Row) -> list[Ancestor]:
    """The lineage that an individual has from another population."""
    try:
        before = msgspec.convert(row.birth.origin.get("lineage", []), list[Ancestor])
    except msgspec.ValidationError:  # written by another release
        return []
    return [msgspec.structs.replace(link, state="elsewhere") for link in before]


def _ancestor(row: Row) -> Ancestor:
    dna, second = row.dna, row.birth.parents[1] if len(row.birth.parents) > 1 else ""
    return Ancestor(
        id=row.id, mutations=row.birth.mutations, second=second, fitness=row.fitness, accuracy=row.accuracy,
        learning_rate=dna.learning_rate, body_rate=dna.body_rate, parameters=row.evaluation.parameters,
        state=row.state.name.lower(), network=dna.in_a_line(),
    )  # fmt: skip


def find(rows: Mapping[str, Row], identity: str) -> Row:
    """The individual with that ID, or with the only ID that starts or ends with it."""
    if identity in rows:
        return rows[identity]
    alike = [row for name, row in rows.items() if identity and (name.startswith(identity) or name.endswith(identity))]
    if len(alike) == 1:
        return alike[0]
    fault = "is not in this experiment" if not alike else f"matches {len(alike)} individuals; write more of it"
    raise SettingsError(f"The individual '{shown(identity)}' {fault}.")
