"""The individuals that set a validation record, tested at an experiment's end, long after others took their place.

    <experiment>/records/<ID>.safetensors     weights, from the moment it set its record until it is tested
    <experiment>/marks.json                   when settings changed, as the plan told

The paper's curves show the test accuracy of whoever had the highest validation accuracy so far. While workers run, the
study's own process only copies weights; it opens the test images when they are gone. Workers read none of these files.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.analysis import Entry, History, Row, spending
from genepool.data.paths import write_atomic
from genepool.errors import ConcurrencyError, DataError, StorageError, shown
from genepool.evolution import Intervention
from genepool.experiment import Experiment
from genepool.population import State
from genepool.study.outcome import Mark, Record
from genepool.study.plan import Change

if TYPE_CHECKING:
    from genepool.data import Source

FOLDER, MARKS = "records", "marks.json"


class Follower:
    """Looks at an experiment that runs: keeps what sets records, and changes settings when the plan says so."""

    def __init__(self, experiment: Experiment, changes: tuple[Change, ...] = ()) -> None:
        self._experiment, self._changes = experiment, changes
        self._history = experiment.history()
        self._kept: set[str] = set()

    def look(self) -> None:
        """Once more; what cannot be read just now is met again at the next look."""
        with contextlib.suppress(StorageError):
            self._history.refresh()
            for row in record_rows(self._history):
                if row.id not in self._kept and keep_weights(self._experiment, row):
                    self._kept.add(row.id)
            self._change_settings()

    def _change_settings(self) -> None:
        """Makes the next change if it is due; once the budget is spent it would have no effect."""
        marks = read_marks(self._experiment.path)
        if len(marks) >= len(self._changes):
            return
        spent, change = self._history.spending(), self._changes[len(marks)]
        if change.spent <= self._share_spent() < 1:
            self._experiment.set(change.set)  # after a crash before the mark is written, a repetition changes nothing
            changes = change.set
            if change.reset_weights:
                self._experiment.intervene(Intervention(reset_weights=True), spent)
                changes = {**changes, "reset_weights": True}
            mark = Mark(set=changes, seconds=spent.seconds, flops=spent.flops, individuals=spent.individuals)
            _write(self._experiment.path / MARKS, msgspec.json.encode([*marks, mark]))

    def _share_spent(self) -> float:
        """Of the budget, by the limit that is nearest."""
        budget, spent = self._experiment.settings().budget, self._history.spending()
        pairs = (
            (spent.seconds, budget.time),
            (spent.individuals, budget.individuals),
            (spent.flops, budget.flops),
        )
        return max((used / limit for used, limit in pairs if limit), default=0.0)


def record_rows(history: History) -> list[Row]:
    """Whoever had a higher fitness than all that became alive before."""
    best, found = 0.0, []
    for row in history.finished():
        if (row.fitness or 0.0) > best:
            best = row.fitness or 0.0
            found.append(row)
    return found


def keep_weights(experiment: Experiment, row: Row) -> bool:
    """Whether there is a copy now; one who changed while being read is met again at the next look."""
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
    """What the curves are drawn from; asked for once, when nobody works any more."""
    from genepool.experiment.best import measure

    history = experiment.history()
    finished = history.finished()
    place = {row.id: i for i, row in enumerate(finished, start=1)}
    entries = [Entry.of(row.result) for row in finished if row.result is not None]
    found = []
    for row in record_rows(history):
        keep_weights(experiment, row)
        path = _place(experiment, row)
        test = measure(experiment, row, path.read_bytes(), source, device) if path.exists() else None
        spent = spending(entries[: place[row.id]])
        found.append(
            Record(
                id=row.id,
                seconds=spent.seconds,
                flops=spent.flops,
                individuals=place[row.id],
                validation=row.accuracy or 0.0,
                parameters=row.evaluation.parameters,
                test=test,
            )
        )
    return tuple(found)


def forget_weights(experiment: Experiment) -> None:
    """Once the outcome is written."""
    folder = experiment.path / FOLDER
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def read_marks(path: Path) -> tuple[Mark, ...]:
    """When settings changed in the experiment of that directory."""
    try:
        return msgspec.json.decode((path / MARKS).read_bytes(), type=tuple[Mark, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(
            f"'{shown(path / MARKS)}' cannot be read ({shown(str(error))}); remove the experiment."
        ) from None


def _place(experiment: Experiment, row: Row) -> Path:
    return experiment.path / FOLDER / f"{row.id}.safetensors"


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomic(path, data)
    except OSError as error:
        raise StorageError(f"'{shown(path)}' cannot be written: {error.strerror or error}.") from None
