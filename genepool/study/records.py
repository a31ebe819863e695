"""The individuals that set a validation record, tested at the end of an experiment.

    <experiment>/records/<ID>.safetensors     weights, from the moment the record was set until it is tested
    <experiment>/changes.json                 the changes of settings that the plan asked for

The paper's curves show the test accuracy of the individual with the highest validation accuracy so far. While workers
run, the study's process only copies weights; it opens the test images after they are gone. Workers read none of these
files.
"""

import contextlib
import time
from pathlib import Path

import msgspec
import numpy as np

from genepool.analysis import Interval, Row, Stopwatch, Table
from genepool.data import Source, write_atomic
from genepool.errors import ConcurrencyError, DataError, StorageError, shown
from genepool.evolution import Intervention, Spending
from genepool.experiment import Experiment, measure_test_accuracy
from genepool.population import State
from genepool.study.outcome import PlannedChange, Record
from genepool.study.plan import Change

FOLDER, CHANGES = "records", "changes.json"
RESET = Intervention(reset_weights=True)
PAUSE = 30.0  # seconds without any training after which a run counts as paused


class RunClock:
    """The interval of a run in progress. Workers count the same time, from their start, when they check the budget."""

    def __init__(self) -> None:
        self._stopwatch: Stopwatch | None = Stopwatch()
        self._last_training = time.monotonic()

    def interval(self, is_training: bool) -> Interval | None:
        """From the start until now, or None in a pause: a cluster may have no room for the workers yet."""
        if is_training:
            self._last_training = time.monotonic()
            self._stopwatch = self._stopwatch or Stopwatch()
        elif time.monotonic() - self._last_training > PAUSE:
            self._stopwatch = None
        return self._stopwatch.interval() if self._stopwatch else None


class Follower:
    """Follows a running experiment: it copies the weights of records and changes settings when the plan says so."""

    def __init__(self, experiment: Experiment, changes: tuple[Change, ...] = ()) -> None:
        self._experiment, self._changes = experiment, changes
        self._history = experiment.history()
        self._kept: set[str] = set()
        self._clock: RunClock | None = None

    def look(self) -> None:
        """Read what is new; what cannot be read at present is read next time."""
        with contextlib.suppress(StorageError):
            self._history.refresh()
            for row in self._history.records():
                if row.id not in self._kept and keep_weights(self._experiment, row):
                    self._kept.add(row.id)
            self._change_settings()

    def _change_settings(self) -> None:
        """Make the next change if it is due; once the budget is spent it would have no effect."""
        self._clock = self._clock or RunClock()  # at the first look, when the workers have just been started
        done = read_changes(self._experiment.path)
        if len(done) >= len(self._changes):
            return
        change, table, budget = self._changes[len(done)], self._history.table, self._experiment.settings().budget
        is_training = bool((table.column("state") == ord(State.TRAINING.value)).any())
        share = budget.share(self._history.spending(also=self._clock.interval(is_training)))
        since = done[-1].version if done else 1
        why = change.due(share, without_better(table, since)) if share < 1 else None
        if why is not None:
            spent = self._history.spending()
            made = PlannedChange(
                set=change.recorded, seconds=spent.seconds, flops=spent.flops, individuals=spent.individuals,
                finished_share=budget.share(spent), share=share, why=why, version=self._make(change, spent, since),
            )  # fmt: skip
            _write(self._experiment.path / CHANGES, msgspec.json.encode([*done, made]))

    def _make(self, change: Change, spent: Spending, since: int) -> int:
        """Publish the change and return its version; repeated after a crash just here, it changes nothing."""
        version = self._experiment.set(change.set)
        if not change.reset_weights:
            return version
        known = self._experiment.settings().escape.reset_version
        return known if known > since else self._experiment.intervene(RESET, spent) or version


def without_better(table: Table, version: int) -> int:
    """How many individuals in a row were not better than the best of those born under this version or a later one."""
    rows = table.finished_rows()
    fitness = table.column("fitness")[rows[table.column("version")[rows] >= version]]
    return len(fitness) - 1 - int(np.argmax(fitness)) if len(fitness) else 0


def keep_weights(experiment: Experiment, row: Row) -> bool:
    """Copy the weights and return whether there is a copy; an individual that changed meanwhile is read next time."""
    path = _place(experiment, row)
    if path.exists() or row.state not in (State.ALIVE, State.DEAD):
        return path.exists()
    with contextlib.suppress(ConcurrencyError, DataError):
        weights = experiment.view().weights(row.individual)
        if weights is not None:
            path.parent.mkdir(exist_ok=True)
            _write(path, weights)
    return path.exists()


def records(experiment: Experiment, source: Source, device: str) -> tuple[Record, ...]:
    """The records that the curves are drawn from; to be called once, when no worker is active."""
    history, found = experiment.history(), []
    progress = history.table.progress()
    for row, place in zip(history.records(), np.nonzero(progress.is_record)[0].tolist(), strict=True):
        keep_weights(experiment, row)
        path = _place(experiment, row)
        test = measure_test_accuracy(experiment, row, path.read_bytes(), source, device) if path.exists() else None
        record = Record(
            id=row.id, seconds=float(progress.elapsed[place]), flops=int(progress.spent[place]), individuals=place + 1,
            validation=row.accuracy or 0.0, parameters=row.evaluation.parameters, test=test,
        )  # fmt: skip
        found.append(record)
    return tuple(found)


def forget_weights(experiment: Experiment) -> None:
    """Remove the copies, once the outcome is written."""
    folder = experiment.path / FOLDER
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def read_changes(path: Path) -> tuple[PlannedChange, ...]:
    """The changes of settings that were made so far."""
    try:
        return msgspec.json.decode((path / CHANGES).read_bytes(), type=tuple[PlannedChange, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(
            f"'{shown(path / CHANGES)}' cannot be read ({shown(str(error))}); remove the experiment."
        ) from None


def _place(experiment: Experiment, row: Row) -> Path:
    return experiment.path / FOLDER / f"{row.id}.safetensors"


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomic(path, data)
    except OSError as error:
        raise StorageError(f"'{shown(path)}' cannot be written: {error.strerror or error}.") from None
