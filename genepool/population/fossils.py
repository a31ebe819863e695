"""The archive of the dead: one log a worker, synced and read back before the directory that it replaces may go.

Two collectors may archive the same individual, and after a power loss one that died may live and die again; records
of one id that agree about its birth and its result are one fossil, the later one. Others are a violation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from genepool.population import naming
from genepool.population.files import Files
from genepool.population.individual import Fossil, Individual
from genepool.population.log import Log, LogTail, in_a_line, read_logs


class Archive:
    """The writing end of one worker's archive."""

    def __init__(self, files: Files, directory: str) -> None:
        self._log = Log(files, directory, "archive")

    def add(self, fossil: Fossil) -> None:
        """Adds a record; when this returns it is as durable as the level of durability promises."""
        # A stranger may have re-indented a file; a document is one line.
        self._log.append(in_a_line(msgspec.json.encode(fossil)), lasting=True)

    def close(self) -> None:
        """Gives the file back."""
        self._log.close()


class Excavation:
    """Reads all archives; counts what is damaged and keeps the places of records that contradict each other."""

    def __init__(self, files: Files, workers: str) -> None:
        self._files = files
        self._workers = workers
        self.damaged: list[str] = []
        self.contradictions: list[str] = []

    def fossils(self) -> dict[str, Fossil]:
        """Every fossil by id, in the order of their archiving per worker."""
        found: dict[str, Fossil] = {}
        for place, fossil in self._records():
            known = found.get(fossil.id)
            if known is not None and (known.birth != fossil.birth or known.result != fossil.result):
                self.contradictions.append(place)
                continue
            found[fossil.id] = fossil
        return found

    def _records(self) -> Iterator[tuple[str, Fossil]]:
        decoder = msgspec.json.Decoder(Fossil)
        for place, document in read_logs(self._files, self._workers, "archive"):
            try:
                if document is None:
                    raise ValueError("a torn or damaged line")
                yield place, decoder.decode(document)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                self.damaged.append(place)


class FossilTail:
    """The archives as somebody reads them who comes back: each fossil once, with the individual that it was."""

    def __init__(self, files: Files, workers: str) -> None:
        self._tail = LogTail(files, workers, "archive")

    def more(self) -> Iterator[tuple[Fossil, Individual]]:
        """The fossils that were not there before; what is damaged is left out."""
        decoder = msgspec.json.Decoder(Fossil)
        for document in self._tail.more():
            try:
                fossil = decoder.decode(document)
            except (msgspec.MsgspecError, RecursionError):
                continue
            individual = naming.parse(fossil.name)
            if individual is not None:
                yield fossil, individual
