"""Opening the experiment that a user asks for: the one in a directory, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from genepool import data as images
from genepool import settings as names
from genepool.errors import SettingsError
from genepool.experiment.experiment import Experiment
from genepool.experiment.start import Start, find_start, require_fit
from genepool.settings import Settings

Progress = Callable[..., None]


class ExperimentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment as a user describes it."""

    directory: Path
    preset: str | None = None
    """The settings of a new experiment; None: laptop."""
    config: Path | None = None
    """A TOML file of settings that differ."""
    changes: dict[str, Any] = {}
    """Settings by name (`section.name`)."""
    assignments: tuple[str, ...] = ()
    """The same as NAME=VALUE; they win over `changes`, which win over the file."""
    start: str | None = None
    """The network to start from, as genepool.experiment.start finds it."""
    data_dir: Path | None = None

    @property
    def exists(self) -> bool:
        """Whether the directory holds an experiment already."""
        return (self.directory / "experiment.json").exists()

    def settings(self) -> Settings:
        """The settings in force, or the preset's, with the user's changes."""
        if self.exists and self.preset is not None:
            raise SettingsError(f"'{self.directory}' exists and keeps its settings; leave --preset out, or use --set.")
        base = Experiment.open(self.directory).settings() if self.exists else names.preset(self.preset or "laptop")
        return names.override(names.changed(base, self._changes()), self.assignments)

    def _changes(self) -> dict[str, Any]:
        given = self.changes
        if given.get("budget.time", "none") != "none":
            given = {**given, "budget.time": names.seconds(given["budget.time"])}
        if "training.steps" in given:  # the same number for every individual
            given = {"training_budget.share": None, "final_phase.share": 0.0, **given}
        if "data.source" in given and Path(given["data.source"]).exists():
            given = {**given, "data.source": str(Path(given["data.source"]).resolve())}  # workers may run elsewhere
        return {**(names.flat(names.read_toml(self.config)) if self.config else {}), **given}


def open_experiment(
    request: ExperimentRequest, *, prepare: bool, progress: Progress
) -> tuple[Experiment, images.Source]:
    """Open or create the experiment, after checking that its images exist and that workers could evolve it.

    With `prepare` the images are prepared here: once, and not by all workers at the same time.
    """
    settings = request.settings()
    if not request.exists:
        _images(settings, request.data_dir, prepare, progress)  # before a directory is made that is of no use
    if request.start is not None or not request.exists:
        experiment = Experiment.create(request.directory, settings, _start(request, settings, progress))
    else:
        experiment = Experiment.open(request.directory)
        experiment.set(names.differences(experiment.settings(), settings))
    experiment.require_rules()
    return experiment, _images(experiment.settings(), request.data_dir, prepare, progress)


def _images(settings: Settings, data_dir: Path | None, prepare: bool, progress: Progress) -> images.Source:
    source = settings.data.open(data_dir, progress)
    if prepare:
        images.prepare(source)
    return source


def _start(request: ExperimentRequest, settings: Settings, progress: Progress) -> Start | None:
    if request.start is None:
        return None
    data = images.prepare(settings.data.open(request.data_dir, progress))
    start = find_start(request.start, data.channels)
    require_fit(start, data)
    return start
