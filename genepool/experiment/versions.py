"""The settings of an experiment: their versions, what each changed, and the rules of the one in force for a worker."""

from __future__ import annotations

import getpass
import logging
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from genepool.analysis import Annotation, Change, History, figure_annotations
from genepool.errors import SettingsError, StorageError, shown
from genepool.evaluation import SCHEDULES
from genepool.evolution import SELECTIONS, SET_POINTS, Breeding, Intervention, Rules, Spending, damped, tournament
from genepool.mutations import MUTATIONS
from genepool.population import Files, Manifest, Published, config_versions, publish_version, published, read_config
from genepool.registry import Registry, forget_installed
from genepool.settings import FIXED, Settings, by_name, changed, differences, fixed_and_tunable, flat, written

log = logging.getLogger(__name__)


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
    version: int
    when: float
    who: str
    label: str  # not empty if it was an intervention
    values: dict[str, tuple[Any, Any]]  # values before and after, by name


def settings_changes(experiment: VersionedSettings) -> list[SettingsChange]:
    notes, found = experiment.published(), []
    for before, version in pairwise(range(1, experiment.version() + 1)):
        old, new = by_name(experiment.settings(before)), by_name(experiment.settings(version))
        if values := {name: (old[name], new[name]) for name in new if old[name] != new[name]}:
            note = notes.get(version, Published())
            found.append(SettingsChange(version, note.when, note.who, note.label, values))
    return found


def annotations_of(experiment: VersionedSettings, history: History) -> list[Annotation]:
    changes = []
    for version, note in experiment.published().items():
        settings = experiment.settings(version)
        changes.append(Change(note.when, note.label, settings.escape, settings.breeding.mutations))
    return figure_annotations(changes, history)


def rules_of(settings: Settings, version: int, *, escaping: bool = False) -> Rules:
    can_reproduce, lacking = not lacking_rules(settings), lacking_mutations(settings.breeding)
    breeding = settings.breeding.without(lacking)
    if escaping:
        breeding = msgspec.structs.replace(breeding, mutations=settings.escape.mutations)
    return Rules(
        version=version,
        population_size=settings.population.size,
        founders=settings.population.founders,
        selection=SELECTIONS.get(settings.population.selection) if can_reproduce else tournament,
        set_point=SET_POINTS.get(settings.population.set_point) if can_reproduce else damped,
        breeding=breeding,
        lacking=lacking,
        training=settings.training,
        training_budget=settings.training_budget,
        final_phase=settings.final_phase,
        limits=settings.limits,
        reset_version=settings.escape.reset_version,
        can_reproduce=can_reproduce,
    )


class CurrentRules:
    """The rules in force, re-read before every step. Any worker that finds an escape due publishes it as the version
    after the one that it has seen; if several do so at once, one wins and the others find the escape in force."""

    def __init__(self, experiment: VersionedSettings, who: str, spent: Callable[[], Spending]) -> None:
        self._experiment, self._who, self._spent = experiment, who, spent
        self._latest: tuple[tuple[int, bool], Rules] | None = None
        self._reported: set[str] = set()

    def __call__(self) -> Rules:
        version = self._experiment.version()
        escape = self._experiment.settings(version).escape
        if not escape.depends_on_spending:
            return self._rules(version, escaping=False)
        spent = self._spent()
        if escape.is_due(spent):
            phase = Intervention(mutations=escape.mutations, individuals=escape.auto or 0)
            self._experiment.intervene(phase, spent, who=self._who, version=version)
            version = self._experiment.version()
            escape = self._experiment.settings(version).escape
        return self._rules(version, escaping=escape.is_active(spent))

    def _rules(self, version: int, *, escaping: bool) -> Rules:
        if self._latest is None or self._latest[0] != (version, escaping):
            settings = self._experiment.settings(version)
            forget_installed()  # a package that was installed since may have what the settings name
            self._report(settings)
            self._latest = (version, escaping), rules_of(settings, version, escaping=escaping)
        return self._latest[1]

    def _report(self, settings: Settings) -> None:
        lacking = lacking_mutations(settings.breeding)
        names = {f"the mutation '{shown(name)}'": "leaves it out of its draws" for name in lacking}
        names |= dict.fromkeys(lacking_rules(settings), "makes no children and only takes over what it can train")
        for name in names.keys() - self._reported:
            log.warning("This worker lacks %s and %s; start one with --plugin to have it used.", name, names[name])
        self._reported |= names.keys()


def _named(settings: Settings) -> tuple[tuple[Registry[Any], str], ...]:
    """The names in the settings that a registry must have before a child can be made."""
    selection, set_point = settings.population.selection, settings.population.set_point
    return (SELECTIONS, selection), (SET_POINTS, set_point), (SCHEDULES, settings.training.schedule)


def check_names(settings: Settings, before: Settings | None = None) -> None:
    """Refuse unknown names that were not in force before: changing another setting does not require every plugin."""
    known = () if before is None else _named(before)
    for registry, name in _named(settings):
        if (registry, name) not in known:
            registry.get(name)
    odds = settings.breeding.odds or {}
    for name in odds:
        if before is None or name not in (before.breeding.odds or {}):
            MUTATIONS.get(name)
    if odds and not any(odds.values()):
        raise SettingsError("All breeding.odds are 0; give at least one mutation a chance.")


def lacking_mutations(breeding: Breeding) -> tuple[str, ...]:
    return tuple(name for name, weight in (breeding.odds or {}).items() if weight > 0 and name not in MUTATIONS)


def lacking_rules(settings: Settings) -> tuple[str, ...]:
    """What the settings name but this process does not have, and cannot make children without."""
    lacking = [f"the {registry.noun} '{shown(name)}'" for registry, name in _named(settings) if name not in registry]
    odds = settings.breeding.odds
    if odds and not any(weight > 0 and name in MUTATIONS for name, weight in odds.items()):
        lacking.append("every mutation that has odds")
    return tuple(lacking)
