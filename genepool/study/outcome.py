"""What came of one experiment of a study, in a file beside it: enough for tables and figures without its population."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from genepool.analysis import History
from genepool.champion import Champion

FILE = "outcome.json"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment."""

    arm: str
    seed: int
    best: Champion
    curve: tuple[tuple[float, float], ...]
    """FLOPs spent and accuracy of the best so far, wherever another took its place."""
    useful: float
    """The share of the FLOPs that went into the best one and its ancestors."""

    @property
    def test_accuracy(self) -> float:
        return self.best.test_accuracy or 0.0


def outcome_of(arm: str, seed: int, best: Champion, history: History) -> Outcome:
    """From the record of the experiment."""
    return Outcome(arm=arm, seed=seed, best=best, curve=_curve(history), useful=_useful(history, best.id))


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
    except (OSError, msgspec.MsgspecError):
        return None


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Whole or not at all."""
    temporary = path / f".{FILE}.{os.getpid()}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(outcome), indent=2))
    temporary.replace(path / FILE)
