"""The versions of an experiment's settings: reading them, publishing new ones, and what each changed."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from genepool.analysis import Annotation, Change, History, figure_annotations
from genepool.errors import SettingsError, StorageError, shown
from genepool.evolution import Intervention, Spending
from genepool.experiment.rules import check_names
from genepool.population import Files, Manifest, Published, config_versions, publish_version, published, read_config
from genepool.settings import FIXED, Settings, by_name, changed, differences, fixed_and_tunable, flat, written


class VersionedSettings:
    """The settings in an experiment's directory. Some are fixed; the others change by publishing a new version."""

    def __init__(self, path: Path, manifest: Manifest, files: Files | None = None) -> None:
        self.path, self.manifest, self._files = path, manifest, files or Files()
        self._settings: dict[int, Settings] = {}

    def version(self) -> int:
        """The version of the settings in force."""
        try:
            return max(config_versions(self._files, str(self.path)), default=1)
        except OSError as error:
            raise StorageError(f"The settings in '{shown(self.path)}' cannot be read: {error}.") from error

    def settings(self, version: int | None = None) -> Settings:
        """The settings in force, or those of one version."""
        number = self.version() if version is None else version
        if number not in self._settings:
            _, tunable = read_config(self._files, str(self.path), number)
            self._settings[number] = changed(Settings(), {**flat(self.manifest.settings), **flat(tunable)})
        return self._settings[number]

    def set(self, changes: Mapping[str, Any]) -> int:
        """Publish settings with some values changed, by name; workers use them from their next step on."""
        while True:
            version = self.version()
            now = self.settings(version)
            if (new := changed(now, changes)) == now:
                return version
            check_names(new, before=now)
            self.require_same_fixed(new)
            assignments = [f"{name}={written(value)}" for name, value in differences(now, new).items()]
            if self._publish(version + 1, new, "set " + " ".join(assignments)):
                return version + 1

    def intervene(self, intervention: Intervention, spent: Spending, *, who: str = "", version: int = 0) -> int | None:
        """Publish an intervention and return its version; if `version` is given, only if that is still in force."""
        while True:
            seen = version or self.version()
            new = changed(self.settings(seen), intervention.changes(spent, seen + 1))
            if self._publish(seen + 1, new, f"intervene: {intervention.label}", intervention.label, who):
                return seen + 1
            if version:
                return None

    def _publish(self, version: int, settings: Settings, what: str, label: str = "", who: str = "") -> bool:
        note = Published(who=who or _user(), when=round(time.time(), 3), what=what, label=label)
        return publish_version(self._files, str(self.path), version, fixed_and_tunable(settings)[1], note)

    def published(self) -> dict[int, Published]:
        """The author, time and description of each version."""
        return published(self._files, str(self.path))

    def require_same_fixed(self, settings: Settings) -> None:
        """Raise SettingsError if a setting differs that cannot change."""
        there, here = by_name(changed(Settings(), flat(self.manifest.settings))), by_name(settings)
        if other := [f"{name} is {there[name]!r}, not {here[name]!r}" for name in FIXED if there[name] != here[name]]:
            raise SettingsError(
                f"'{shown(self.path)}' is an experiment with other settings ({'; '.join(other)}); "
                "choose another directory, or leave those settings out to continue it."
            )


def _user() -> str:
    with suppress(OSError, KeyError, ImportError):  # a number without a name, as in some containers
        return f"{getpass.getuser()}@{socket.gethostname()}"
    return f"unknown@{socket.gethostname()}"


class SettingsChange(NamedTuple):
    """A version of the settings when it came into force."""

    version: int
    when: float
    who: str
    label: str
    """Not empty if it was an intervention."""
    values: dict[str, tuple[Any, Any]]
    """The values before and after, by name."""


def settings_changes(experiment: VersionedSettings) -> list[SettingsChange]:
    """Each version after the first, with the values that it changed."""
    notes, found = experiment.published(), []
    for before, version in pairwise(range(1, experiment.version() + 1)):
        old, new = by_name(experiment.settings(before)), by_name(experiment.settings(version))
        if values := {name: (old[name], new[name]) for name in new if old[name] != new[name]}:
            note = notes.get(version, Published())
            found.append(SettingsChange(version, note.when, note.who, note.label, values))
    return found


def annotations_of(experiment: VersionedSettings, history: History) -> list[Annotation]:
    """The interventions and their ends, for a figure."""
    changes = []
    for version, note in experiment.published().items():
        settings = experiment.settings(version)
        changes.append(Change(note.when, note.label, settings.escape, settings.breeding.mutations))
    return figure_annotations(changes, history)
