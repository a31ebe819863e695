"""A study in a folder: its plan, its experiments, their outcomes.

    <study>/plan.json                    written before anything runs
    <study>/<arm>/seed-<number>/         an experiment; it is finished when it has an outcome.json

A study that was stopped or killed continues when it is started again. Several processes on several machines can run it
at the same time: each decides again and again which experiments it serves.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from genepool.analysis import Observer
from genepool.data import Source, prepare, write_atomic
from genepool.errors import SettingsError, StorageError, shown
from genepool.experiment import Experiment, best_network
from genepool.settings import by_name
from genepool.study.lease import Driver, Note, claim, is_led
from genepool.study.outcome import Outcome, around, curve, read_outcome, splits, useful, write_outcome
from genepool.study.plan import StudyPlan, check_plan
from genepool.study.records import Follower, forget_weights, read_changes, records
from genepool.study.serve import Planned, Serving, StudyRun, workers_missing
from genepool.workers import memory_per_pool

PLAN = "plan.json"
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


def run_study(plan: StudyPlan, folder: Path, run: StudyRun, look: Look) -> list[Outcome]:
    """Run the experiments that have no outcome yet, with other drivers if there are any; return all outcomes.
    KeyboardInterrupt after Ctrl-C or SIGTERM: trainings are handed over, and the next driver continues.
    """
    begin_study(plan, folder)
    planned = [_planned(plan, folder, arm, seed, run) for arm, seed in plan.runs()]
    if not all(one.finished for one in planned):
        if run.ray is None:
            _prepare_images(planned, run)
            run = msgspec.structs.replace(run, room=memory_per_pool(run.parallel))
        lease = max(one.settings.population.lease for one in planned)
        with _joined(run), Driver(folder, lease) as driver:
            Scheduler(planned, driver, run).work(look)
    return _outcomes(one.path for one in planned)


def _planned(plan: StudyPlan, folder: Path, arm: str, seed: int, run: StudyRun) -> Planned:
    path, changes = path_of(folder, arm, seed), plan.changes(arm)

    def close(experiment: Experiment) -> None:
        _close(experiment, arm, seed, experiment.source(run.data_dir), run.device, len(changes))

    return Planned(
        key=str(path.relative_to(folder)), path=path, settings=plan.settings_of(arm, seed), close=close,
        follow=lambda experiment: Follower(experiment, changes).look,
    )  # fmt: skip


def _prepare_images(planned: list[Planned], run: StudyRun) -> None:
    """Prepare all images once, and not by all workers at the same time; bad ones are reported here."""
    for data in {one.settings.data for one in planned if not one.finished}:
        prepare(data.open(run.data_dir))


@contextmanager
def _joined(run: StudyRun) -> Iterator[None]:
    if run.ray is None:
        yield
        return
    from genepool.workers.ray import join

    ray = join(run.ray.address)
    try:
        yield
    finally:
        ray.shutdown()


def path_of(folder: Path, arm: str, seed: int) -> Path:
    """The directory of an experiment of a study."""
    return folder / arm.replace(" ", "-") / f"seed-{seed}"


def read_study(folder: Path) -> tuple[StudyPlan, list[Outcome]]:
    """The plan of a study and its outcomes so far; nothing is run."""
    try:
        plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=StudyPlan)
        check_plan(plan, folder / PLAN)
    except (OSError, msgspec.MsgspecError):
        raise SettingsError(f"The plan '{shown(folder / PLAN)}' is missing or damaged; run the study again.") from None
    return plan, _outcomes(path_of(folder, arm, seed) for arm, seed in plan.runs())


def _outcomes(paths: Iterable[Path]) -> list[Outcome]:
    return [outcome for outcome in map(read_outcome, paths) if outcome is not None]


def begin_study(plan: StudyPlan, folder: Path) -> None:
    """Write the plan before anything runs. A folder holds one plan, to which only repeats and arms may be added."""
    for arm in plan.arms:
        if not plan.settings_of(arm, 1).budget.limits_anything:
            raise SettingsError(
                f"The arm '{arm}' would never end; set budget.time, budget.individuals or budget.flops."
            )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PLAN
    if path.exists():
        try:
            known = msgspec.json.decode(path.read_bytes(), type=StudyPlan)
        except msgspec.MsgspecError:
            raise SettingsError(f"'{shown(path)}' is damaged; choose another folder.") from None
        if _fixed(known) != _fixed(plan) or any(plan.arms.get(arm, was) != was for arm, was in known.arms.items()):
            raise SettingsError(f"'{shown(folder)}' holds a study with another plan; choose another folder.")
        # Of several drivers, some may run only a part of the study.
        plan = msgspec.structs.replace(plan, repeats=max(plan.repeats, known.repeats), arms={**known.arms, **plan.arms})
        if plan == known:
            return
    write_atomic(path, msgspec.json.format(msgspec.json.encode(plan), indent=2))


def _fixed(plan: StudyPlan) -> tuple[object, ...]:
    """What must not change: statistics must not be chosen when the results are known."""
    return plan.settings, plan.preset, plan.statistics


def _close(experiment: Experiment, arm: str, seed: int, source: Source, device: str, planned: int) -> None:
    """Choose the best network by validation accuracy, test it once, and record the outcome."""
    from genepool.nn import versions

    best, history = best_network(experiment, source=lambda: source, device=device), experiment.history()
    first, changes = experiment.settings(1), read_changes(experiment.path)
    outcome = Outcome(
        arm=arm, seed=seed, best=best, curve=curve(history), useful=useful(history, best.id),
        records=records(experiment, source, device), changes=changes, planned=planned,
        around_changes=around(history, changes), splits=splits(history, first.budget),
        settings=by_name(first), versions=versions(),
    )  # fmt: skip
    write_outcome(experiment.path, outcome)
    forget_weights(experiment)


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
