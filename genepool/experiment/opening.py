"""Opening the experiment that a user asks for: the one in a directory, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from genepool import data as images
from genepool import settings as names
from genepool.errors import SettingsError
from genepool.experiment.experiment import Experiment
from genepool.experiment.start import beginning
from genepool.settings import Settings

Progress = Callable[..., None]


class ExperimentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment as a user describes it."""

    directory: Path
    preset: str | None = None  # settings of a new experiment; None: laptop, or finetune for a pretrained network
    config: Path | None = None  # a TOML file of settings that differ
    changes: dict[str, Any] = {}  # settings by name (`section.name`)
    assignments: tuple[str, ...] = ()  # the same as NAME=VALUE; they win over `changes`, which win over the file
    start: str | None = None  # network to start from, as genepool.experiment.start finds it
    data_dir: Path | None = None
    accept_images: bool = False  # whether to continue if images were added, changed or removed

    @property
    def exists(self) -> bool:
        return (self.directory / "experiment.json").exists()

    def settings(self, default: str = "laptop") -> Settings:
        """The settings; `default` is the preset of a new experiment if none was given."""
        if self.exists and self.preset is not None:
            raise SettingsError(f"'{self.directory}' exists and keeps its settings; leave --preset out, or use --set.")
        base = Experiment.open(self.directory).settings() if self.exists else names.preset(self.preset or default)
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


class Opened(NamedTuple):
    experiment: Experiment
    source: images.Source
    note: str = ""  # what was ignored of the images, and what was chosen for the network that it starts from


def open_experiment(request: ExperimentRequest, *, prepare: bool, progress: Progress) -> Opened:
    """Open or create the experiment, after checking that its images exist and that workers could evolve it. With
    `prepare` the images are prepared here: once, and not by all workers at the same time."""
    settings = request.settings()
    start, note = None, ""
    if request.start is not None:
        first = Experiment.open(request.directory).settings(1) if request.exists else None
        settings, start, note = beginning(
            request.start, request.settings, lambda chosen: chosen.data.open(request.data_dir, progress), first
        )
    elif not request.exists:
        source = settings.data.open(request.data_dir, progress)
        if prepare:  # before a directory is made that is of no use
            images.prepare(source)
    if start is not None or not request.exists:
        experiment = Experiment.create(request.directory, settings, start)
    else:
        experiment = Experiment.open(request.directory)
        experiment.set(names.differences(experiment.settings(), settings))
    experiment.require_rules()
    source = experiment.source(request.data_dir, progress)
    if prepare:
        experiment.prepared(source, accept=request.accept_images)
    return Opened(experiment, source, "\n".join(filter(None, (_remark(source), note))))


def _remark(source: images.Source) -> str:
    folder = images.original(source)
    return folder.remark if isinstance(folder, images.FolderSource) else ""
