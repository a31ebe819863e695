"""The versions of an experiment's settings: what each changed, for the dashboard and for figures."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from genepool.analysis import Annotation, Change, History, figure_annotations
from genepool.experiment.experiment import Experiment
from genepool.population import Published
from genepool.settings import by_name


class SettingsChange(NamedTuple):
    """A version of the settings when it came into force."""

    version: int
    when: float
    who: str
    label: str
    """Not empty if it was an intervention."""
    values: dict[str, tuple[Any, Any]]
    """The values before and after, by name."""


def settings_changes(experiment: Experiment) -> list[SettingsChange]:
    """Each version after the first, with the values that it changed."""
    notes, found = experiment.published(), []
    for before, version in pairwise(range(1, experiment.version() + 1)):
        old, new = by_name(experiment.settings(before)), by_name(experiment.settings(version))
        values = {name: (old[name], new[name]) for name in new if old[name] != new[name]}
        if values:
            note = notes.get(version, Published())
            found.append(SettingsChange(version, note.when, note.who, note.label, values))
    return found


def annotations_of(experiment: Experiment, history: History) -> list[Annotation]:
    """The interventions and their ends, for a figure."""
    changes = []
    for version, note in experiment.published().items():
        settings = experiment.settings(version)
        changes.append(Change(note.when, note.label, settings.escape, settings.breeding.mutations))
    return figure_annotations(changes, history)
