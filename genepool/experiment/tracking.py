"""Trackers that others use: what a run comes to, sent to TensorBoard or MLflow by the process that looks on.

Workers know nothing of it. A tracker that fails is told of once, and the run goes on without it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from genepool.errors import MissingDependencyError
from genepool.experiment import Experiment
from genepool.registry import Registry

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks at the population."""


class Tracker(Protocol):
    """Where figures go. A tracker of one's own is a class of this form, made with an experiment's directory."""

    def log(self, figures: dict[str, float], step: int) -> None:
        """Figures by name, when so many individuals had been trained."""
        ...

    def keep(self, folder: Path) -> None:
        """The best model's files, at the end."""
        ...

    def close(self) -> None: ...


TRACKERS: Registry[Callable[[Path], Tracker]] = Registry("tracker", "genepool.trackers")


@TRACKERS.register("tensorboard")
class TensorBoard:
    """Event files in the experiment's `tensorboard` folder. It has no room for models: those are in `best`."""

    def __init__(self, directory: Path) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError as error:
            raise _missing("tensorboard", error) from None
        self._writer = Writer(str(directory / "tensorboard"))

    def log(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step=step)
        self._writer.flush()

    def keep(self, folder: Path) -> None:
        return

    def close(self) -> None:
        self._writer.close()


@TRACKERS.register("mlflow")
class MLflow:
    """A run on MLFLOW_TRACKING_URI; without that, in a database and a folder in the experiment's directory."""

    def __init__(self, directory: Path) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise _missing("mlflow", error) from None
        directory = directory.resolve()
        given = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = MlflowClient(tracking_uri=given or f"sqlite:///{directory / 'mlflow.db'}")
        known = self._client.get_experiment_by_name(directory.name)
        place = None if given else (directory / "mlruns").as_uri()
        group = (
            known.experiment_id if known else self._client.create_experiment(directory.name, artifact_location=place)
        )
        self._run = self._client.create_run(group, tags={"directory": str(directory)}).info.run_id

    def log(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self._client.log_metric(self._run, name, value, step=step)

    def keep(self, folder: Path) -> None:
        self._client.log_artifacts(self._run, str(folder), "best")

    def close(self) -> None:
        self._client.set_terminated(self._run)


def _missing(name: str, error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(f"Tracking by {name} needs a package ({error}): pip install 'genepool[{name}]'.")


def _made(name: str, directory: Path) -> Tracker | None:
    """The tracker, or None if its own code or server fails; that its package is missing is for the user to mend."""
    kind = TRACKERS.get(name)
    try:
        return kind(directory)
    except MissingDependencyError:
        raise
    except Exception as error:  # noqa: BLE001 - as in `_each`
        _tell(name, error)
        return None


def _tell(name: str, error: Exception) -> None:
    log.warning("Tracking by %s has failed, and ends: %s: %s", name, type(error).__name__, error)


class Tracking:
    """Looks at an experiment now and then and sends what is new: one point an individual."""

    def __init__(self, experiment: Experiment, names: tuple[str, ...]) -> None:
        self._trackers = {name: tracker for name in names if (tracker := _made(name, experiment.path)) is not None}
        self._history = experiment.history()
        self._seen: set[str] = set()
        self._best = self._flops = 0.0
        self._next = 0.0

    def look(self, *, at_once: bool = False) -> None:
        """To be called often; does something every few seconds."""
        if not self._trackers or (time.monotonic() < self._next and not at_once):
            return
        self._history.refresh()
        for row in self._history.finished():
            if row.id not in self._seen:
                self._seen.add(row.id)
                self._best = max(self._best, row.fitness or 0.0)
                self._flops += row.evaluation.flops
                figures = {"fitness": row.fitness or 0.0, "best": self._best, "flops": self._flops}
                self._each(lambda tracker, figures=figures: tracker.log(figures, len(self._seen)))  # type: ignore[misc]
        self._next = time.monotonic() + EVERY

    def end(self, best: Path | None = None, **figures: float) -> None:
        """The last figures and the best model, if there is one."""
        self.look(at_once=True)
        if best is not None:
            self._each(lambda tracker: tracker.log(figures, len(self._seen)))
            self._each(lambda tracker: tracker.keep(best))
        self._each(lambda tracker: tracker.close())

    def _each(self, act: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                act(tracker)
            except Exception as error:  # noqa: BLE001 - somebody else's code and server: no reason to lose a run
                del self._trackers[name]
                _tell(name, error)
