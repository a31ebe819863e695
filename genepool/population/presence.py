"""A worker's own directory, `workers/<who>/`: its claim to its name, its beat, its diary and its archive.

One writer per file, always: nobody else writes here, and the name is drawn anew for every incarnation of a process.
"""

from __future__ import annotations

import contextlib
import errno

import msgspec

from genepool import __version__
from genepool.errors import StorageError
from genepool.population import naming
from genepool.population.events import EventLog
from genepool.population.files import Files
from genepool.population.fossils import Archive
from genepool.population.individual import FREE, Individual, State
from genepool.population.lease import Pulse, Watch

_BEAT_BYTES = 64


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """Who a worker is, for people."""

    host: str
    process: int
    started: float
    version: str


class Presence:
    """One incarnation of one worker, as others see it."""

    def __init__(self, files: Files, workers: str, lease: float) -> None:
        self._files = files
        self._workers = workers
        self._lease = lease
        self.who = self._claim()
        self._directory = f"{workers}/{self.who}"
        self._pulse = Pulse(lease, files.monotonic())
        self._watch = Watch(self._read_beat, lease)
        self.events = EventLog(files, self._directory)
        self.archive = Archive(files, self._directory)
        self._introduce()

    def _claim(self) -> str:
        for _ in range(100):
            who = naming.make_who(self._files.urandom)
            try:
                self._files.mkdir(f"{self._workers}/{who}")
                self._files.sync_dir(self._workers)
                return who
            except FileExistsError:
                continue
            except OSError as error:
                raise StorageError(f"{self._workers} cannot be written: {error}; check mount and rights.") from error
        raise StorageError(f"No free name was found in {self._workers}; the source of randomness repeats itself.")

    def _introduce(self) -> None:
        host, process = self._files.process()
        info = Info(host=host, process=process, started=self._files.wall(), version=__version__)
        with contextlib.suppress(OSError):
            self._files.save(f"{self._directory}/info.json", msgspec.json.encode(info))
        self.beat("start", 0)

    def beat(self, phase: str, step: int) -> None:
        """Shows that this worker gets on; a beat that does not get through is no reason to stop training."""
        value = self._pulse.due(phase, step, self._files.monotonic())
        if value is not None:
            with contextlib.suppress(OSError):
                self._files.overwrite(f"{self._directory}/beat", value)
                self._pulse.written(self._files.monotonic())

    def _read_beat(self, who: str) -> bytes:
        try:
            return self._files.load(f"{self._workers}/{who}/beat", _BEAT_BYTES)
        except OSError as error:
            # Not there at all is a value like any other. Unreadable just now proves nothing: it counts as a change.
            return b"" if error.errno == errno.ENOENT else self._files.urandom(8)

    def abandoned(self, individual: Individual) -> bool:
        """Whether whoever owns this has been silent for a whole lease, as seen from here, or is nobody else."""
        if individual.state not in (State.TRAINING, State.STAGING, State.COLLECTED):
            return False
        if individual.owner in (FREE, self.who):
            return True
        now = self._files.monotonic()
        # Both are asked each time: the look at the beat is what starts the window.
        silence, steady = self._watch.unchanged_for(individual.owner, now), self._pulse.steady_for(now)
        return min(silence, steady) >= self._lease

    def forget_others(self, owners: set[str]) -> None:
        """Keeps observing only those who own something."""
        self._watch.forget_others(owners)

    def close(self) -> None:
        """Gives the open files back."""
        self.events.close()
        self.archive.close()
