"""What came of one experiment of a study, in a file beside it: enough for tables and figures without its population."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from genepool.analysis import History
from genepool.data.paths import write_atomic
from genepool.errors import DataError, shown
from genepool.experiment.best import BestNetwork

FILE = "outcome.json"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An individual that had the highest validation accuracy when it became alive; where the experiment was then."""

    id: str
    seconds: float
    """During which somebody trained."""
    flops: int
    individuals: int
    """That had become alive, itself included."""
    validation: float
    parameters: int
    test: float | None
    """Measured at the experiment's end; None where the weights were gone before anybody looked."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that changed while the experiment ran."""

    set: dict[str, Any]
    seconds: float
    flops: int
    individuals: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment."""

    arm: str
    seed: int
    best: BestNetwork
    curve: tuple[tuple[float, float], ...]
    """FLOPs spent and accuracy of the best so far, wherever another took its place."""
    useful: float
    """The share of the FLOPs that went into the best one and its ancestors."""

    records: tuple[Record, ...] = ()
    marks: tuple[Mark, ...] = ()
    around_marks: tuple[float, float] | None = None
    """The best fitness before the first mark, and of those who became alive after the last."""
    settings: dict[str, Any] = {}
    """With which it began."""
    versions: dict[str, str] = {}
    """Of the program and of what computes."""

    @property
    def _chosen(self) -> Record | None:
        """The last record that could be tested: without selection the best may be dead, and is the best still."""
        return next((record for record in reversed(self.records) if record.test is not None), None)

    @property
    def id(self) -> str:
        """Of the individual that is reported."""
        return self.best.id if self._chosen is None else self._chosen.id

    @property
    def parameters(self) -> int:
        return self.best.parameters if self._chosen is None else self._chosen.parameters

    @property
    def validation(self) -> float:
        return self.best.validation_accuracy if self._chosen is None else self._chosen.validation

    @property
    def test_accuracy(self) -> float:
        """Of the individual of highest validation accuracy."""
        test = self.best.test_accuracy if self._chosen is None else self._chosen.test
        return test or 0.0


def outcome_of(
    arm: str,
    seed: int,
    best: BestNetwork,
    history: History,
    *,
    records: tuple[Record, ...] = (),
    marks: tuple[Mark, ...] = (),
    settings: dict[str, Any] | None = None,
    versions: dict[str, str] | None = None,
) -> Outcome:
    """From the record of the experiment."""
    return Outcome(
        arm=arm,
        seed=seed,
        best=best,
        curve=_curve(history),
        useful=_useful(history, best.id),
        records=records,
        marks=marks,
        around_marks=_around(history, marks),
        settings=settings or {},
        versions=versions or {},
    )


def _around(history: History, marks: tuple[Mark, ...]) -> tuple[float, float] | None:
    if not marks:
        return None
    fitness = [row.fitness or 0.0 for row in history.finished()]
    before, after = fitness[: marks[0].individuals], fitness[marks[-1].individuals :]
    return (max(before, default=0.0), max(after)) if after else None


def _curve(history: History) -> tuple[tuple[float, float], ...]:
    curve: list[tuple[float, float]] = []
    spent, best, accuracy = 0.0, 0.0, 0.0
    for row in history.finished():
        spent += row.evaluation.flops
        if (row.fitness or 0.0) > best:
            best, accuracy = row.fitness or 0.0, row.accuracy or 0.0
            curve.append((spent, accuracy))
    return (*curve, (spent, accuracy))


def _useful(history: History, identity: str) -> float:
    total = sum(row.evaluation.flops for row in history.finished())
    useful, row = 0, history.rows.get(identity)
    while row is not None:
        useful += row.evaluation.flops
        row = history.rows.get(row.birth.parents[0]) if row.birth.parents else None
    return useful / total if total else 0.0


def read_outcome(path: Path) -> Outcome | None:
    """The outcome of the experiment in a directory, if it is finished."""
    try:
        return msgspec.json.decode((path / FILE).read_bytes(), type=Outcome)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(
            f"The record '{shown(path / FILE)}' cannot be read ({shown(str(error))}); remove it, and the study "
            "makes it again from the experiment."
        ) from None


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Into the directory of the experiment, which is finished by that."""
    write_atomic(path / FILE, msgspec.json.format(msgspec.json.encode(outcome), indent=2))
