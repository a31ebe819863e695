"""The rules that workers follow, made from the settings in force.

What the lower layers receive, made of settings: they are given values, never the settings themselves.

What a worker goes by from step to step.

The names in settings, and whether this process has what they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.dna import CapacityLimit
from genepool.errors import SettingsError, shown
from genepool.evolution import (
    SELECTIONS,
    SET_POINTS,
    Breeding,
    Budget,
    Escape,
    FinalPhase,
    Intervention,
    Rules,
    Spending,
    TrainingBudgetRules,
    damped,
    tournament,
)
from genepool.mutations import MUTATIONS
from genepool.nn import SCHEDULES
from genepool.settings import Settings

if TYPE_CHECKING:
    from genepool.data import Source
    from genepool.experiment.experiment import Experiment


def source_of(settings: Settings, data_dir: Path | None = None, progress: Callable[..., None] | None = None) -> Source:
    """The images that the settings name, wherever they are on this machine."""
    from genepool.data import open_source

    size = tuple(int(side) for side in settings.size.split("x")) if settings.size else None
    flip = None if settings.flip else False  # None: as the data set itself says
    return open_source(settings.data, data_dir=data_dir, size=size, flip=flip, progress=progress)  # type: ignore[arg-type]


def budget_of(settings: Settings) -> Budget:
    """The limits in the settings."""
    return Budget(
        time=settings.time,
        individuals=settings.individuals,
        flops=settings.flops,
        target=settings.target,
        plateau=settings.plateau,
    )


def escape_of(settings: Settings) -> Escape:
    """When a population under these settings is trapped, and what is being done about it."""
    return Escape(
        alarm=settings.alarm,
        quiet_until=settings.alarm_quiet_until,
        auto=settings.auto_escape,
        mutations=settings.escape_mutations,
        individuals=settings.escape_individuals,
        seconds=settings.escape_time,
    )


def rules_of(settings: Settings, version: int, *, escaping: bool = False) -> Rules:
    """What a worker goes by under the settings of that version, where it is the time for more mutations or not."""
    can_reproduce = not lacking_rules(settings)
    breeding = breeding_of(settings, lacking_mutations(settings))
    if escaping:
        breeding = msgspec.structs.replace(breeding, mutations=settings.escape_mutations)
    return Rules(
        version=version,
        population_size=settings.population_size,
        selection=SELECTIONS.get(settings.selection) if can_reproduce else tournament,
        set_point=SET_POINTS.get(settings.set_point) if can_reproduce else damped,
        breeding=breeding,
        can_reproduce=can_reproduce,
        training_budget=training_budget_rules_of(settings),
        final_phase=final_phase_of(settings),
        max_steps=settings.steps,
        child_steps=settings.affordable,
        max_capacity=CapacityLimit(settings.max_parameters, settings.max_flops) if settings.redraw else None,
        checkpoint_every=settings.checkpoint_every,
        reset_version=settings.reset_version,
    )


def final_phase_of(settings: Settings) -> FinalPhase:
    """When the final phase begins."""
    return FinalPhase(share=settings.finish)


def training_budget_rules_of(settings: Settings) -> TrainingBudgetRules:
    """How much training an individual gets."""
    return TrainingBudgetRules(
        share=settings.share,
        first_share=settings.first_share,
        early_crop=settings.early_crop,
        cooling=settings.cooling,
        racing=settings.racing,
    )


def breeding_of(settings: Settings, lacking: Iterable[str] = ()) -> Breeding:
    """How children are made under these settings, by somebody who lacks some mutations."""
    without = tuple(lacking)
    odds = {name: weight for name, weight in settings.mutation_odds.items() if name not in without}
    return Breeding(
        learning_rate=settings.learning_rate,
        mutations=settings.mutations,
        odds=odds if settings.mutation_odds else None,
        lacking=without,
        width_step=settings.width_step,
        recombination=settings.recombination,
        recombination_odds=settings.recombination_odds,
    )


class CurrentRules:
    """What a worker goes by, asked before each step: the settings in force, and whether an escape lasts.

    Any worker that finds an escape due publishes it, as the version after the one that it has seen: of several who do
    so at once one wins, and the others find it in force.
    """

    def __init__(self, experiment: Experiment, who: str, spent: Callable[[], Spending]) -> None:
        self._experiment, self._who, self._spent = experiment, who, spent

    def __call__(self) -> Rules:
        version = self._experiment.version()
        escape = escape_of(self._experiment.settings(version))
        if not escape.matters:
            return self._experiment.rules(version)
        spent = self._spent()
        if escape.is_due(spent):
            phase = Intervention(mutations=escape.mutations, individuals=escape.auto)
            self._experiment.intervene(phase, spent, who=self._who, version=version)
            version = self._experiment.version()
            escape = escape_of(self._experiment.settings(version))
        return self._experiment.rules(version, escaping=escape.lasts(spent))


def check_names(settings: Settings, before: Settings | None = None) -> None:
    """Refuses names that nothing answers to, before an experiment or a worker stumbles over them.

    Those that were in force before are passed over: whoever changes something else need not have every plugin.
    """
    if before is None or settings.selection != before.selection:
        SELECTIONS.get(settings.selection)
    if before is None or settings.set_point != before.set_point:
        SET_POINTS.get(settings.set_point)
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
            (SET_POINTS, settings.set_point),
            (SCHEDULES, settings.schedule),
        )
        if name not in registry
    ]
    odds = settings.mutation_odds
    if odds and not any(weight > 0 and name in MUTATIONS for name, weight in odds.items()):
        lacking.append("every mutation that has odds")
    return tuple(lacking)
