"""Which experiments of a study this driver serves, and how far the study is, on whatever machines it runs."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import msgspec

from genepool.analysis import Observer
from genepool.errors import StorageError
from genepool.experiment import Experiment
from genepool.study.lease import Driver, Note, claim, is_led
from genepool.study.serve import Planned, Serving, StudyRun, workers_missing

TICK = 0.5  # seconds between two decisions
LOOK_EVERY = 5.0  # seconds between two readings of all running experiments
HELP_EVERY = 4.0  # seconds on average between two attempts to help another driver


class ExperimentProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one running experiment is."""

    key: str
    share: float  # the part of the budget that is spent
    individuals: int
    best: float | None  # the accuracy of the best living individual; None: there is none yet
    workers: int  # the workers of all drivers
    trouble: str = ""


class StudyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a study is."""

    done: int
    running: tuple[ExperimentProgress, ...]
    waiting: int
    drivers: int
    seconds_left: float | None  # the time until the end at the present speed; None: unknown


Look = Callable[[StudyProgress], None]


class _Signals:
    """Counts requests to stop. Only a number: an exception here could interrupt the start of a worker halfway."""

    count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Count Ctrl-C and SIGTERM while the context lasts."""
    signals, is_main = _Signals(), threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()  # only there can handlers be set
    before = {number: signal.signal(number, signals) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Scheduler:
    """Serves the experiments of one study, up to `parallel` of them at a time."""

    def __init__(self, planned: list[Planned], driver: Driver, run: StudyRun) -> None:
        self._planned, self._driver, self._run = planned, driver, run
        self._serving: dict[str, Serving] = {}
        self._speed = _Speed()
        self._next_look = self._next_help = 0.0

    def work(self, look: Look) -> None:
        """Serve until every experiment is finished, here or elsewhere; KeyboardInterrupt after Ctrl-C or SIGTERM."""
        with _signals() as signals:
            try:
                while not signals.count and (left := self._left()):
                    self._collect()
                    self._assign(left)
                    if time.monotonic() >= self._next_look:
                        look(self._progress(left))
                        self._next_look = time.monotonic() + LOOK_EVERY
                    time.sleep(TICK)
            finally:
                self._hand_over(signals)
            self._collect()
            if signals.count:
                raise KeyboardInterrupt

    def _left(self) -> list[Planned]:
        return [one for one in self._planned if one.key in self._serving or not one.finished]

    def _collect(self) -> None:
        """Forget the threads that have ended, and raise what ended them."""
        for key, serving in list(self._serving.items()):
            if not serving.is_alive():
                del self._serving[key]
                if serving.error is not None:
                    raise serving.error

    def _assign(self, left: list[Planned]) -> None:
        """Lead what has no leader, in the plan's order; with places left, help other drivers."""
        others = [one for one in left if one.key not in self._serving]
        try:
            leaderless = [one for one in others if not is_led(one.path, self._driver)]
            for one in leaderless[: self._run.parallel - len(self._serving)]:
                if (leadership := claim(one.create().path, self._driver)) is not None:
                    self._serve(Serving(one, self._driver, self._run, leadership))
            if leaderless and len(self._serving) >= self._run.parallel:
                self._make_room()
            elif not leaderless and len(self._serving) < self._run.parallel and time.monotonic() >= self._next_help:
                self._next_help = time.monotonic() + random.uniform(0.5, 1.5) * HELP_EVERY
                self._help(others)
        except StorageError:  # a file server that fails for a moment; the next decision comes soon
            return

    def _make_room(self) -> None:
        """Stop helping: leading comes first."""
        if helping := [serving for serving in self._serving.values() if not serving.leads]:
            helping[0].stop()

    def _help(self, led: list[Planned]) -> None:
        """Serve one that another driver leads; a random one, since all drivers that are free would choose the first."""
        for one in random.sample(led, len(led)):
            if one.is_begun and workers_missing(one.create().settings(), one.key, self._driver, self._run) != 0:
                self._serve(Serving(one, self._driver, self._run, None))
                return

    def _serve(self, serving: Serving) -> None:
        self._serving[serving.name] = serving
        serving.start()

    def _hand_over(self, signals: _Signals) -> None:
        """End all threads; another signal kills the workers."""
        before = signals.count
        for serving in self._serving.values():
            serving.stop()
        while any(serving.is_alive() for serving in self._serving.values()):
            if signals.count > before:
                before = signals.count
                for serving in self._serving.values():
                    serving.kill()
            time.sleep(0.05)

    def _progress(self, left: list[Planned]) -> StudyProgress:
        notes, left = self._driver.others(), [one for one in left if not one.finished]
        led = [one for one in left if one.is_begun and is_led(one.path, self._driver)]
        running = tuple(self._progress_of(one, notes) for one in led)
        done, waiting = len(self._planned) - len(left), len(left) - len(running)
        seconds_left = self._speed.seconds_left([one.share for one in running], waiting)
        return StudyProgress(
            done=done, running=running, waiting=waiting, drivers=1 + len(notes), seconds_left=seconds_left
        )

    def _progress_of(self, one: Planned, notes: dict[str, Note]) -> ExperimentProgress:
        serving = self._serving.get(one.key)
        workers, trouble = (serving.workers, serving.trouble) if serving else (0, "")
        elsewhere = sum(note.serves.get(one.key, 0) for note in notes.values())
        return self._speed.look(one, elsewhere + workers, trouble)


class _Speed:
    """Follows the running experiments, and estimates from their speed how long the rest of the study takes."""

    def __init__(self) -> None:
        self._observed: dict[str, tuple[Experiment, Observer]] = {}
        self._last: dict[str, tuple[float, float]] = {}
        self._gained = self._seconds = 0.0

    def look(self, one: Planned, workers: int, trouble: str) -> ExperimentProgress:
        if one.key not in self._observed:
            experiment = one.create()
            self._observed[one.key] = experiment, experiment.observe()
        experiment, observer = self._observed[one.key]
        observer.refresh()
        status = experiment.status(observer)
        share, now = experiment.settings().budget.share(status.spent), time.monotonic()
        before, since = self._last.get(one.key, (share, now))
        self._gained, self._seconds = self._gained + max(0.0, share - before), self._seconds + now - since
        self._last[one.key] = share, now
        return ExperimentProgress(
            key=one.key, share=share, individuals=status.spent.individuals, workers=workers,
            best=status.best.accuracy if status.best else None, trouble=trouble or status.trouble,
        )  # fmt: skip

    def seconds_left(self, shares: list[float], waiting: int) -> float | None:
        """The time for the rest of the running experiments and for those that wait, as many at a time as now."""
        if not shares or not self._gained:
            return None
        left = [1 - share for share in shares]
        return max((sum(left) + waiting) / len(shares), max(left)) * self._seconds / self._gained
