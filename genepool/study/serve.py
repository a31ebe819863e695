"""One experiment of a study, served by this driver: it runs workers for it, and leads it if no other driver does.

Each experiment has a thread, since preparing a cluster's nodes, copying weights and testing the best network all take
their time, and the other experiments must not wait.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from genepool.analysis import Ledger
from genepool.errors import StorageError
from genepool.experiment import Experiment
from genepool.population import FREE, HeartbeatMonitor, State
from genepool.settings import Settings
from genepool.study.lease import LEADERS, Driver, Leadership, claim, leader_of, machine
from genepool.study.outcome import FILE
from genepool.workers import RESERVE, PoolShare, RayOptions, WorkerPool

EVERY = 0.2  # seconds between two looks: an individual that sets a record may be dead, and its weights gone, soon after
SELDOM = 2.0  # seconds between two looks at the other drivers and at the budget


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver runs a study."""

    parallel: int = 1  # experiments at the same time
    workers: int | None = None  # the most workers of this driver for one experiment; None: as many as the settings say
    memory: int | None = None  # bytes per worker; None: an equal share of the free memory
    room: int | None = None  # bytes for all workers of one experiment; None: unknown
    device: str = "auto"
    data_dir: Path | None = None
    plugins: tuple[str, ...] = ()
    ray: RayOptions | None = None

    def words(self, folder: Path) -> list[str]:
        """The arguments of `genepool` that run a study like this; for jobs, which are not on Ray."""
        given: dict[str, object] = {
            "--workers": self.workers,
            "--memory": self.memory,
            "--data-dir": self.data_dir.resolve() if self.data_dir else None,
            "--device": self.device if self.device != "auto" else None,
        }
        return ["study", str(folder), *(str(word) for pair in given.items() if pair[1] is not None for word in pair)]

    def memory_of_all(self) -> int | None:
        """The bytes that its workers and the driver need, if they are known."""
        return None if self.memory is None or self.workers is None else self.workers * self.memory + 2 * RESERVE


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of the plan."""

    key: str  # its folder within the study
    path: Path
    settings: Settings
    follow: Callable[[Experiment], Callable[[], None]]  # makes what the leader calls at every look
    close: Callable[[Experiment], object]  # writes the outcome

    @property
    def finished(self) -> bool:
        return (self.path / FILE).exists()

    @property
    def is_begun(self) -> bool:
        return (self.path / LEADERS).exists()

    def create(self) -> Experiment:
        """Open the experiment, or create it."""
        return Experiment.create(self.path, self.settings)


class Serving(threading.Thread):
    """The work of this driver on one experiment, until it is finished or this driver is no longer needed."""

    def __init__(self, planned: Planned, driver: Driver, run: StudyRun, leadership: Leadership | None) -> None:
        super().__init__(name=planned.key)
        self._planned, self._experiment, self._driver, self._run = planned, planned.create(), driver, run
        self._lead(leadership)
        self._pools: list[WorkerPool] = []
        self._pools_made, self._stopping, self._over, self._next_look = 0, threading.Event(), False, 0.0
        self._ledger = Ledger(self._experiment.view())
        self._lease = self._experiment.manifest.lease
        self._monitor = HeartbeatMonitor(lambda who: self._experiment.view().worker(who).heartbeat(), self._lease)
        self.error: BaseException | None = None
        self.trouble = ""  # why the files cannot be used at present

    @property
    def leads(self) -> bool:
        return self._leadership is not None

    @property
    def workers(self) -> int:
        """The workers that this driver has started and that have more to do."""
        return sum(pool.count for pool in self._pools)

    def stop(self) -> None:
        """Hand over the trainings and the leadership, and end."""
        self._stopping.set()

    def kill(self) -> None:
        """End the workers at once."""
        self.stop()
        for pool in list(self._pools):
            pool.end()

    def run(self) -> None:
        """Serve the experiment. What goes wrong is kept for the main thread."""
        try:
            with contextlib.ExitStack() as pools:
                self._serve(pools)
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            self.error = error
        finally:
            self._pools.clear()
            self._driver.heartbeat({self._planned.key: 0})
            if self._leadership is not None and not self._planned.finished:
                self._leadership.release()

    def _serve(self, pools: contextlib.ExitStack) -> None:
        while not (self._stopping.is_set() or self._planned.finished):
            try:
                if not self._goes_on(pools):
                    return
                self.trouble = ""
            except StorageError as error:  # a file server that fails for a moment does not end a study of days
                self.trouble = str(error)
            self._stopping.wait(EVERY)
        for pool in self._pools:
            pool.stop()

    def _goes_on(self, pools: contextlib.ExitStack) -> bool:
        """Do what is due; return whether there is more to do here."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SELDOM
            self._look_around()
            if not self._over and not self._hire(pools):
                return False
        if self._follow is not None and self._leadership is not None and self._leadership.held():
            self._follow()
        self._tend()
        return not (self._over and not self._pools and self._close())

    # -- leading -------------------------------------------------------------------------------------------------------

    def _lead(self, leadership: Leadership | None) -> None:
        self._leadership = leadership
        self._follow = self._planned.follow(self._experiment) if leadership else None

    def _look_around(self) -> None:
        """Lead if there is no leader, and stop leading if another driver has taken over; see whether all is spent."""
        if self._leadership is None:
            self._lead(claim(self._experiment.path, self._driver))
        elif not self._leadership.held():
            self._lead(None)
        self._ledger.refresh()
        self._over = self._over or bool(self._experiment.settings().budget.over(self._ledger.spending()))

    def _close(self) -> bool:
        """Write the outcome once no worker is left anywhere; return whether it is written."""
        if self._leadership is None or not self._leadership.held() or self._in_training():
            return False
        self._planned.close(self._experiment)
        return True

    def _in_training(self) -> bool:
        """Whether a worker on any machine still trains: its individual may become the best."""
        owners = [one.owner for one in self._experiment.view().snapshot() if one.state is State.TRAINING]
        now = time.monotonic()
        return any(self._monitor.unchanged_for(who, now) < self._lease for who in owners if who != FREE)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _hire(self, pools: contextlib.ExitStack) -> bool:
        """Start the workers that are missing; return whether this driver has anything to do here."""
        missing = self._missing()
        if missing == 0:
            return bool(self.leads or self._pools)
        run, series = self._run, 0 if self.leads and not self._pools_made else 1 + secrets.randbits(20)
        share = PoolShare(pools=run.parallel, most=missing, memory=self._room(missing), series=series)
        pool = self._experiment.pool(
            device=run.device, data_dir=run.data_dir, memory=run.memory, plugins=run.plugins, ray=run.ray, share=share
        )
        pools.enter_context(pool)
        self._pools_made += 1
        pool.start()
        self._pools.append(pool)
        self._announce()
        return True

    def _missing(self) -> int | None:
        """How many more workers this driver starts; None: as many as this machine or cluster has."""
        key, settings = self._planned.key, self._experiment.settings()
        asked, wanted = workers_missing(settings, key, self._driver, self._run, self.workers), wanted_workers(settings)
        if not asked or wanted is None:
            return asked
        # Several drivers may want to help at the same moment: each announces itself first, then all of them count.
        self._driver.heartbeat({key: self.workers + asked})
        if self.leads:
            return asked
        leader, me = leader_of(self._experiment.path), self._driver.who
        ahead = [note.serves.get(key, 0) for who, note in self._driver.others().items() if who < me or who == leader]
        return max(0, min(asked, wanted - self.workers - sum(ahead)))

    def _room(self, more: int | None) -> int | None:
        """The memory for more workers, beside those that this driver has here already."""
        if self._run.room is None or more is None:
            return self._run.room
        return self._run.room * more // (more + self.workers)

    def _announce(self) -> None:
        self._driver.heartbeat({self._planned.key: self.workers})

    def _tend(self) -> None:
        """Replace workers that died; a pool whose workers have all ended by themselves means that all is spent."""
        working = [pool for pool in self._pools if pool.tend()]
        if len(working) < len(self._pools):
            self._pools, self._over = working, True
            self._announce()


def wanted_workers(settings: Settings) -> int | None:
    """The workers that an experiment has on all machines together; None: as many as the machines have."""
    return settings.workers.number(settings.population.size)


def workers_missing(settings: Settings, key: str, driver: Driver, run: StudyRun, mine: int = 0) -> int | None:
    """How many workers a driver that has some could add; None: as many as this machine or cluster has."""
    wanted = wanted_workers(settings)
    others = [note for note in driver.others().values() if note.serves.get(key)]
    if wanted is None:
        here = mine or any(run.ray or note.machine == machine() for note in others)
        return 0 if here else run.workers
    free = wanted - mine - sum(note.serves[key] for note in others)
    return max(0, min(free, (run.workers or wanted) - mine))
