"""The rules that a worker follows under the settings in force, and the names in settings that this process lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from genepool.errors import SettingsError, shown
from genepool.evaluation import SCHEDULES
from genepool.evolution import SELECTIONS, SET_POINTS, Breeding, Intervention, Rules, Spending, damped, tournament
from genepool.mutations import MUTATIONS
from genepool.registry import Registry, forget_installed
from genepool.settings import Settings

if TYPE_CHECKING:
    from genepool.experiment.versions import VersionedSettings

log = logging.getLogger(__name__)


def rules_of(settings: Settings, version: int, *, escaping: bool = False) -> Rules:
    """The rules under this version of the settings, during an escape or not."""
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
    """The rules in force, re-read before every step: the settings may have changed, or an escape begun or ended.

    Any worker that finds an escape due publishes it as the version after the one that it has seen. If several workers
    do so at once, one wins and the others find the escape in force.
    """

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
        """Log each name that this process lacks, once."""
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
    """Refuses unknown names before an experiment is created or changed.

    Names that were in force before are not checked: changing another setting does not require every plugin.
    """
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
    """The mutations with odds that are not known in this process."""
    return tuple(name for name, weight in (breeding.odds or {}).items() if weight > 0 and name not in MUTATIONS)


def lacking_rules(settings: Settings) -> tuple[str, ...]:
    """What the settings name but this process does not have, and cannot make children without."""
    lacking = [f"the {registry.noun} '{shown(name)}'" for registry, name in _named(settings) if name not in registry]
    odds = settings.breeding.odds
    if odds and not any(weight > 0 and name in MUTATIONS for name, weight in odds.items()):
        lacking.append("every mutation that has odds")
    return tuple(lacking)
