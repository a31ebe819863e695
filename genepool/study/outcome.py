"""The outcome of one experiment of a study, in a file: enough for tables and figures without the population."""

from bisect import bisect_right
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.analysis import History, ancestors
from genepool.data import write_atomic
from genepool.errors import DataError, shown
from genepool.evolution import Budget, Spending
from genepool.experiment import BestNetwork, Experiment, measured_accuracies

FILE = "outcome.json"
PERCENTS = 100


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An individual with the highest validation accuracy when it became alive, and how far the experiment was then."""

    id: str
    seconds: float  # the training time of the experiment
    flops: int
    individuals: int  # the number that had become alive, including itself
    validation: float
    parameters: int
    test: float | None  # the test accuracy, measured at the end; None if the weights were gone before they were copied


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that the plan changed during the experiment, and how far the experiment was then."""

    set: dict[str, Any]
    seconds: float
    flops: int
    individuals: int  # as above, by the individuals that were finished
    finished_share: float = 0.0  # the share of the budget that those had taken
    # The share that was spent, with the trainings in progress: what decides about changes and ends the experiment.
    share: float = 0.0
    why: Literal["spent", "plateau"] = "spent"
    version: int = 0  # the version of the settings with this change


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    arm: str
    seed: int
    best: BestNetwork
    # FLOPs spent and accuracy of the best so far, at each new best and at the end.
    curve: tuple[tuple[float, float], ...]
    useful: float  # the share of the FLOPs that was spent on the best individual and its ancestors
    records: tuple[Record, ...] = ()
    changes: tuple[PlannedChange, ...] = ()
    planned: int = 0  # the number of changes in the plan; some may not have come due before the budget was spent
    # The best fitness before the first change, and of the individuals born after the last; None if there are none.
    around_changes: tuple[float, float | None] | None = None
    # For each percent of the budget: the best fitness until then, and of the individuals born later.
    splits: tuple[tuple[float, float | None], ...] = ()
    settings: dict[str, Any] = {}  # the settings at the start
    versions: dict[str, str] = {}  # the versions of Genepool and of the libraries that compute

    @property
    def _chosen(self) -> Record | None:
        """The last record that could be tested; without selection the best individual may be dead."""
        return next((record for record in reversed(self.records) if record.test is not None), None)

    @property
    def id(self) -> str:
        return self.best.id if self._chosen is None else self._chosen.id

    @property
    def parameters(self) -> int:
        return self.best.parameters if self._chosen is None else self._chosen.parameters

    @property
    def validation(self) -> float:
        return self.best.validation_accuracy if self._chosen is None else self._chosen.validation

    @property
    def test_accuracy(self) -> float:
        """The test accuracy of the individual of highest validation accuracy."""
        return (self.best.test_accuracy if self._chosen is None else self._chosen.test) or 0.0


def around(history: History, changes: tuple[PlannedChange, ...]) -> tuple[float, float | None] | None:
    """The best fitness before the first change, and of those born after the last; trainings during one are neither."""
    if not changes:
        return None
    progress, last = history.table.progress(), changes[-1]
    born_later = history.table.column("version")[progress.rows] >= last.version
    born_later[: last.individuals] = False
    return _best(progress.fitness[: changes[0].individuals]) or 0.0, _best(progress.fitness[born_later])


def splits(history: History, budget: Budget) -> tuple[tuple[float, float | None], ...]:
    """The same for moments at which nothing changed: each percent of the budget, by the finished individuals."""
    progress = history.table.progress()
    born = history.table.column("born")[progress.rows]
    spent = zip(progress.elapsed.tolist(), progress.spent.tolist(), strict=True)
    shares = [
        budget.share(Spending(seconds=seconds, flops=int(flops), individuals=number))
        for number, (seconds, flops) in enumerate(spent, start=1)
    ]
    found = []
    for percent in range(PERCENTS + 1):
        count = bisect_right(shares, percent / PERCENTS)
        moment = float(progress.finished[count - 1]) if count else 0.0
        found.append((_best(progress.fitness[:count]) or 0.0, _best(progress.fitness[born > moment])))
    return tuple(found)


def _best(fitness: NDArray[np.float64]) -> float | None:
    return float(fitness.max()) if len(fitness) else None


def curve(history: History) -> tuple[tuple[float, float], ...]:
    """FLOPs spent and accuracy at each new best, and at the end."""
    progress = history.table.progress()
    accuracies = history.table.column("accuracy")[progress.rows[progress.is_record]].tolist()
    records = zip(progress.spent[progress.is_record].tolist(), accuracies, strict=True)
    return (*records, (sum(progress.spent[-1:].tolist()), accuracies[-1] if accuracies else 0.0))


def useful(history: History, identity: str) -> float:
    """The share of the FLOPs that was spent on an individual and its ancestors."""
    own = sum(row.evaluation.flops for row in ancestors(history.rows, identity))
    return own / max(1, history.spending().flops)


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


def known_test_accuracies(experiment: Experiment) -> dict[str, float]:
    """All known test accuracies by ID: those of a study's records, and those that commands measured."""
    outcome = read_outcome(experiment.path)
    records = () if outcome is None else outcome.records
    return {record.id: record.test for record in records if record.test is not None} | measured_accuracies(experiment)


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Write the outcome to the experiment's directory, which marks the experiment as finished."""
    write_atomic(path / FILE, msgspec.json.format(msgspec.json.encode(outcome), indent=2))
