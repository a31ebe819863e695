"""The names in settings, and whether this process has what they stand for."""

from __future__ import annotations

from genepool.errors import SettingsError, shown
from genepool.evolution import SELECTIONS, SETPOINTS
from genepool.mutations import MUTATIONS
from genepool.nn.schedules import SCHEDULES
from genepool.settings import Settings


def check_names(settings: Settings, before: Settings | None = None) -> None:
    """Refuses names that nothing answers to, before an experiment or a worker stumbles over them.

    Those that were in force before are passed over: whoever changes something else need not have every plugin.
    """
    if before is None or settings.selection != before.selection:
        SELECTIONS.get(settings.selection)
    if before is None or settings.setpoint != before.setpoint:
        SETPOINTS.get(settings.setpoint)
    if before is None or settings.schedule != before.schedule:
        SCHEDULES.get(settings.schedule)
    for name in settings.mutation_odds:
        if before is None or name not in before.mutation_odds:
            MUTATIONS.get(name)
    if settings.mutation_odds and not any(settings.mutation_odds.values()):
        raise SettingsError("All mutation_odds are 0; give at least one mutation a chance.")


def lacking_mutations(settings: Settings) -> tuple[str, ...]:
    """The mutations with odds that are not known in this process."""
    return tuple(name for name, weight in settings.mutation_odds.items() if weight > 0 and name not in MUTATIONS)


def lacking_rules(settings: Settings) -> tuple[str, ...]:
    """What these settings ask for, but this process does not have, and cannot make children without."""
    lacking = [
        f"the {registry.noun} '{shown(name)}'"
        for registry, name in (
            (SELECTIONS, settings.selection),
            (SETPOINTS, settings.setpoint),
            (SCHEDULES, settings.schedule),
        )
        if name not in registry
    ]
    odds = settings.mutation_odds
    if odds and not any(weight > 0 and name in MUTATIONS for name, weight in odds.items()):
        lacking.append("every mutation that has odds")
    return tuple(lacking)
