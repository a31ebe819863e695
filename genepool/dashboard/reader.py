"""One experiment as somebody sees it who keeps looking: only `open` and `listdir`, and nothing is read twice.

Living individuals are read from their directories, those who went from the archives, which are only read on. What is
kept of each is a row of numbers; whoever wants to know more of one reads its record again (`detail`).
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from math import isnan
from pathlib import Path

import msgspec

from genepool.dashboard import table
from genepool.dashboard.table import Names, ShortBirth, ShortResult, Table
from genepool.errors import ConcurrencyError, DataError, GenepoolError, StorageError, shown
from genepool.population import Birth, Census, DirectoryView, Files, Fossil, Individual, Result, State
from genepool.population.directory import names
from genepool.population.directory.archive import Event
from genepool.population.directory.log import LogTail, Place, read_place
from genepool.population.directory.manifest import read_manifest
from genepool.population.directory.shards import Known

PASSING = frozenset({State.STAGING, State.COLLECTED})
"""States of entries that are not individuals yet, or not any more."""
LATEST_EVENTS = 200
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
DAMAGED = (DataError, msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


class Reader:
    """Keeps a table of one experiment; `refresh` looks again. May be asked from other threads meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self._looking = threading.Lock()
        self.trouble = ""
        """Why the directory cannot be read just now."""
        self.seen_at = 0.0
        """When it could last be read, on the wall clock."""
        self.reading = True
        """Whether the first look has not come to its end yet."""
        self._begin()

    def _begin(self) -> None:
        self.view = DirectoryView.open(self.path)
        self.files = Files()
        self.boot = secrets.token_hex(4)
        """Numbers of rows and of the sequence are those of this reader only."""
        self.table = Table()
        self.mutations, self.workers = Names(), Names()
        self.census = Census()
        self.sweep_training: list[Individual] = []
        self.quarantined: list[Individual] = []
        self.foreign: list[str] = []
        self.damaged: set[str] = set()
        self._latest: deque[tuple[str, bytes]] = deque(maxlen=LATEST_EVENTS)
        self._logs: list[str] = []
        self._log_numbers: dict[str, int] = {}
        workers = f"{self.path}/workers"
        self._tail = LogTail(self.files, workers, "archive", "events")
        self._listed: Known = {}
        self._up_to_date: dict[str, Individual] = {}
        """Of whom there is nothing to read while its name stays as it is."""
        self._orphans: dict[int, str] = {}

    @property
    def cursor(self) -> str:
        """How far somebody is who knows everything that is here."""
        return f"{self.boot}-{self.table.sequence}"

    @property
    def news(self) -> str:
        """Another text whenever there is something new to tell."""
        return f"{self.cursor} {self.reading} {self.trouble}"

    def refresh(self) -> None:
        """Looks again. What goes wrong is told by `trouble`, and what was seen before stays."""
        with self._looking:
            try:
                self._refuse_another()
                self._look()
                self.trouble, self.seen_at = "", time.time()
            except (GenepoolError, OSError) as error:
                self.trouble = shown(str(error))
            self.reading = False

    def _refuse_another(self) -> None:
        """Begins anew where the directory has become another experiment's."""
        manifest = read_manifest(self.files, str(self.path))
        if manifest.uuid != self.view.manifest.uuid:
            with self.lock:
                self._begin()

    def _look(self) -> None:
        sweep, self._listed = self.view.sweep_again(self._listed)
        gone = self._read_logs()
        before, self._up_to_date = self._up_to_date, {}
        for individual in sweep.individuals:
            # Whoever went after the listing was made is no longer what the listing says.
            if before.get(individual.id) is individual or (individual.id not in gone and self._see(individual)):
                self._up_to_date[individual.id] = individual
        self._join_families()
        with self.lock:
            self.census = sweep.census()
            self.sweep_training = [i for i in sweep.individuals if i.state is State.TRAINING]
            self.quarantined = [i for i in sweep.individuals if i.state is State.QUARANTINED]
            self.foreign = [names.printable(name) for name in sweep.foreign[:LATEST_EVENTS]]

    # -- the living ----------------------------------------------------------------------------------------------------

    def _see(self, individual: Individual) -> bool:
        """Reads somebody as far as the name says that there is news; whether that is all for now."""
        if individual.state in PASSING:
            return False
        row = self.table.rows.get(individual.id)
        if row is not None:
            known = self.table.get(row, "state"), self.table.get(row, "epoch")
            if known == (ord(individual.state.value), individual.claim):
                return True
        if individual.state is State.QUARANTINED:
            self.damaged.discard(individual.id)
            if row is not None:
                self._put(row, state=ord("Q"), claim=0)
            return True
        try:
            self._read(individual, row)
        except (ConcurrencyError, StorageError):
            return False  # it moved on and is met again, here or in an archive
        except DAMAGED:
            self.damaged.add(individual.id)
            return False  # somebody may mend it
        self.damaged.discard(individual.id)
        return True

    def _read(self, individual: Individual, row: int | None) -> None:
        birth = self.view.read_birth(individual) if row is None else None
        result = None
        if individual.state in (State.ALIVE, State.DEAD) and (row is None or isnan(self.table.get(row, "fitness"))):
            result = self.view.read_result(individual)
        self._record(individual, birth, result)

    def _record(
        self,
        individual: Individual,
        birth: Birth | ShortBirth | None,
        result: Result | ShortResult | None,
        **place: int,
    ) -> None:
        values: dict[str, float] = {"state": ord(individual.state.value), "epoch": individual.claim, **place}
        if birth is not None:
            values |= {**table.of_birth(birth), "mutation": self.mutations.number(table.mutation_of(birth))}
        if result is not None:
            values |= table.of_result(result)
        if result is not None or individual.state is State.TRAINING:
            values["worker"] = self.workers.number(table.worker_of(individual, result))
        with self.lock:
            row = self.table.rows.get(individual.id)
            if row is None:
                row = self.table.add(individual.id)
            self.table.put(row, **values)
        if birth is not None and birth.parents and self.table.get(row, "parent") < 0:
            self._orphans[row] = birth.parents[0]

    def _put(self, row: int, **values: float) -> None:
        with self.lock:
            self.table.put(row, **values)

    def _join_families(self) -> None:
        for row, parent in list(self._orphans.items()):
            number = self.table.rows.get(parent)
            if number is not None:
                self._put(row, parent=number)
                del self._orphans[row]

    # -- those who went ------------------------------------------------------------------------------------------------

    def _read_logs(self) -> set[str]:
        """Reads archives and diaries on; the IDs of those that were found in archives."""
        found = set()
        for place, document in self._tail.lines():
            folder, _, name = place.path.rpartition("/")
            who = folder.rpartition("/")[2]
            if not name.startswith("archive"):
                self._latest.append((who, document))
                continue
            try:
                fossil = table.fossils.decode(document)
                individual = names.parse(fossil.name)
                if individual is None or individual.id != fossil.birth.id:
                    raise ValueError("a record of somebody else")
                self._record(
                    individual, fossil.birth, fossil.result,
                    log=self._log_number(place.path), start=place.start, length=place.length,
                )  # fmt: skip
                found.add(individual.id)
            except UNREADABLE:
                self.damaged.add(f"{who}/{name}:{place.start}")
        return found

    def _log_number(self, path: str) -> int:
        number = self._log_numbers.get(path)
        if number is None:
            number = self._log_numbers[path] = len(self._logs)
            self._logs.append(path)
        return number

    def fossil(self, row: int) -> Fossil | None:
        """The whole record of one that is in an archive."""
        number = self.table.get(row, "log")
        if number < 0:
            return None
        place = Place(self._logs[number], self.table.get(row, "start"), self.table.get(row, "length"))
        document = read_place(self.files, place)
        if document is None:
            raise StorageError(f"The record of {self.table.ids[row]} cannot be read any more.")
        try:
            return msgspec.json.decode(document, type=Fossil)
        except UNREADABLE as error:
            raise DataError(f"The record of {self.table.ids[row]} is damaged: {error}.") from None

    def bytes_of_logs(self) -> int:
        """The archives and diaries on the disk."""
        return self._tail.bytes_read()

    # -- what happened -------------------------------------------------------------------------------------------------

    def events(self) -> list[tuple[str, Event]]:
        """The latest lines of the workers' diaries, the newest first."""
        decoder, found = msgspec.json.Decoder(Event), []
        for who, document in list(self._latest):
            with contextlib.suppress(*UNREADABLE):
                found.append((who, decoder.decode(document)))
        return sorted(found, key=lambda pair: -pair[1].time)
