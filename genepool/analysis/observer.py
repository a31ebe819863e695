"""One experiment that is observed for a while: its table, kept up to date, and single records on request."""

import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from genepool.analysis.history import Row
from genepool.analysis.reader import UNREADABLE, Reader
from genepool.analysis.table import Table
from genepool.errors import ConcurrencyError, DataError, GenepoolError, SettingsError, StorageError, shown
from genepool.population import Census, DirectoryView, Files, Fossil, Individual, State, printable

_ATTEMPTS = 3
_SETTLE_EVERY = 10_000  # rows; the first pass may take a while, and clients see what it has read so far


class Observer:
    """Keeps the table of one experiment. `refresh` updates it; other threads may read it under `lock` meanwhile."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.path, self._files = path, files
        self.lock, self._one_at_a_time = threading.Lock(), threading.Lock()
        self.trouble = ""  # why the directory cannot be read at present
        self.seen_at = 0.0  # the wall clock time at which it was last read
        self.reading = True  # whether the first pass is not over yet
        self._start(DirectoryView.open(path, files=files))

    def _start(self, view: DirectoryView) -> None:
        self.view = view
        self.reader = Reader(view, events=True)
        self.boot = secrets.token_hex(4)  # row and sequence numbers are valid only together with this
        self.table = Table()
        self.census = Census()
        self.training: list[Individual] = []
        self.quarantined: list[Individual] = []
        self.foreign: list[str] = []
        self.executed: dict[str, int] = {}  # FLOPs that each worker has executed by its latest heartbeat
        self._network = ("", "")

    @property
    def cursor(self) -> str:
        """The position of a client that has received all there is."""
        return f"{self.boot}-{self.table.sequence}"

    @property
    def version(self) -> str:
        """A text that changes with everything a status depends on, time and settings excepted."""
        return f"{self.cursor} {self.reading} {self.trouble}"

    def refresh(self) -> None:
        """Read what is new. If that fails, `trouble` says why, and what was read before stays."""
        with self._one_at_a_time:
            try:
                self._start_again_if_replaced()
                self._read()
                self.trouble, self.seen_at = "", time.time()
            except (GenepoolError, OSError) as error:
                self.trouble = shown(str(error))
            self.reading = False

    def _start_again_if_replaced(self) -> None:
        view = DirectoryView.open(self.path, files=self._files)
        if view.manifest.uuid != self.view.manifest.uuid:
            with self.lock:
                self._start(view)

    def _read(self) -> None:
        for number, seen in enumerate(self.reader.changes(), start=1):
            with self.lock:
                self.table.take(seen)
                if number % _SETTLE_EVERY == 0:
                    self.table.settle()
        sweep, executed = self.reader.sweep, self.view.executed()
        with self.lock:
            self.table.settle()
            self.executed = executed
            self.census = sweep.census()
            self.training = [i for i in sweep.individuals if i.state is State.TRAINING]
            self.quarantined = [i for i in sweep.individuals if i.state is State.QUARANTINED]
            self.foreign = [printable(name) for name in sweep.foreign]

    def number(self, identity: str) -> int:
        """The row number of an individual."""
        row = self.table.rows.get(identity)
        if row is None:
            raise SettingsError(f"The individual '{shown(identity)}' is not in this experiment, or not yet.")
        return row

    def row(self, identity: str) -> Row:
        """The complete record of an individual, from its directory or from an archive."""
        number = self.number(identity)
        for _ in range(_ATTEMPTS):
            with suppress(ConcurrencyError):
                if (row := self._archived(number) or self._living(identity)) is not None:
                    return row
            self.refresh()
        raise ConcurrencyError(f"Individual {identity} changes faster than it can be read; try again.")

    def _archived(self, number: int) -> Row | None:
        place = self.table.place(number)
        if place is None:
            return None
        document, identity = self.view.read_log(place), self.table.ids[number]
        if document is None:
            raise StorageError(f"The record of individual {identity} can no longer be read.")
        try:
            fossil = msgspec.json.decode(document, type=Fossil)
        except UNREADABLE as error:
            raise DataError(f"The record of individual {identity} is damaged: {error}.") from None
        return Row(individual=fossil.individual, birth=fossil.birth, result=fossil.result)

    def _living(self, identity: str) -> Row | None:
        individual = self.view.find(identity)
        if individual is None:
            return None
        if individual.state is State.QUARANTINED:
            raise DataError(f"Individual {identity} is in quarantine ({individual.why}); see `genepool check`.")
        birth, has_result = self.view.read_birth(individual), individual.state in (State.ALIVE, State.DEAD)
        return Row(individual=individual, birth=birth, result=self.view.read_result(individual) if has_result else None)

    def network(self, identity: str) -> str:
        """An individual's architecture in one line; empty if its record cannot be read. The last one is cached."""
        if self._network[0] != identity:
            try:
                self._network = identity, self.row(identity).dna.in_a_line()
            except GenepoolError:
                return ""
        return self._network[1]
