"""TensorBoard and MLflow: the observing process sends them the figures of a run. One that fails is reported once."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from genepool.errors import MissingDependencyError
from genepool.experiment.experiment import Experiment
from genepool.registry import Registry

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds between two refreshes


class Tracker(Protocol):
    """Receives figures. A custom tracker is a class of this form, constructed with the experiment's directory."""

    def log(self, figures: dict[str, float], step: int) -> None:
        """Take figures by name; `step` is the number of individuals trained so far."""

    def keep(self, folder: Path) -> None:
        """Take the files of the best model, at the end."""

    def close(self) -> None: ...


TRACKERS: Registry[Callable[[Path], Tracker]] = Registry("tracker", "genepool.trackers")


@TRACKERS.register("tensorboard")
class TensorBoard:
    """Writes event files to the experiment's `tensorboard` folder. It does not store models; the best is in `best`."""

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
    """A run on MLFLOW_TRACKING_URI, or without it in a database and a folder in the experiment's directory."""

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
        group = known.experiment_id if known else self._client.create_experiment(directory.name, place)
        self._run = self._client.create_run(group, tags={"directory": str(directory)}).info.run_id

    def log(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self._client.log_metric(self._run, name, value, step=step)

    def keep(self, folder: Path) -> None:
        self._client.log_artifacts(self._run, str(folder), "best")

    def close(self) -> None:
        self._client.set_terminated(self._run)


def _missing(name: str, error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(f"Tracking with {name} needs a package ({error}): pip install 'genepool[{name}]'.")


def _made(name: str, directory: Path) -> Tracker | None:
    """The tracker, or None if its code or server fails; a missing package is the user's to install."""
    kind = TRACKERS.get(name)
    try:
        return kind(directory)
    except MissingDependencyError:
        raise
    except Exception as error:  # noqa: BLE001 - as in `_each`
        _warn(name, error)
        return None


def _warn(name: str, error: Exception) -> None:
    log.warning("Tracking with %s failed and stops: %s: %s", name, type(error).__name__, error)


class Tracking:
    """Observes an experiment and sends what is new: one point per individual."""

    def __init__(self, experiment: Experiment, names: tuple[str, ...]) -> None:
        self._trackers = {name: tracker for name in names if (tracker := _made(name, experiment.path)) is not None}
        self._observer, self._next = experiment.observe(), 0.0
        self._sent: set[int] = set()

    def look(self, *, at_once: bool = False) -> None:
        """To be called often; it refreshes every few seconds."""
        if not self._trackers or (time.monotonic() < self._next and not at_once):
            return
        self._observer.refresh()
        progress = self._observer.table.progress()
        columns = (progress.rows.tolist(), progress.fitness.tolist(), progress.best.tolist(), progress.spent.tolist())
        for row, fitness, best, flops in zip(*columns, strict=True):
            if row not in self._sent:
                self._sent.add(row)
                figures = {"fitness": fitness, "best": best, "flops": flops}
                self._each(lambda tracker, figures=figures: tracker.log(figures, len(self._sent)))  # type: ignore[misc]
        self._next = time.monotonic() + EVERY

    def end(self, best: Path | None = None, **figures: float) -> None:
        self.look(at_once=True)
        if best is not None:
            self._each(lambda tracker: tracker.log(figures, len(self._sent)))
            self._each(lambda tracker: tracker.keep(best))
        self._each(lambda tracker: tracker.close())

    def _each(self, act: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                act(tracker)
            except Exception as error:  # noqa: BLE001 - foreign code and servers must not end a run
                del self._trackers[name]
                _warn(name, error)
