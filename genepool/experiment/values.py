"""What the lower layers receive, made of settings: they are given values, never the settings themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.dna import Largest
from genepool.evolution import SELECTIONS, SETPOINTS, Breeding, Budget, Escape, Planning, Rules
from genepool.evolution.selection import tournament
from genepool.evolution.setpoint import damped
from genepool.experiment.names import lacking_mutations, lacking_rules
from genepool.settings import Settings

if TYPE_CHECKING:
    from genepool.nn.sources import Source


def source_of(settings: Settings, data_dir: Path | None = None, progress: Callable[..., None] | None = None) -> Source:
    """The images that the settings name, wherever they are on this machine."""
    from genepool.nn.sources import open_source

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
    barren = bool(lacking_rules(settings))
    breeding = breeding_of(settings, lacking_mutations(settings))
    if escaping:
        breeding = msgspec.structs.replace(breeding, mutations=settings.escape_mutations)
    return Rules(
        version=version,
        population_size=settings.population_size,
        selection=tournament if barren else SELECTIONS.get(settings.selection),
        setpoint=damped if barren else SETPOINTS.get(settings.setpoint),
        breeding=breeding,
        barren=barren,
        planning=planning_of(settings),
        affordable=settings.affordable,
        largest=Largest(settings.max_parameters, settings.max_flops) if settings.redraw else None,
        checkpoint_every=settings.checkpoint_every,
        reset_version=settings.reset_version,
    )


def planning_of(settings: Settings) -> Planning:
    """How much training an individual gets."""
    return Planning(
        share=settings.share,
        first=settings.first_share,
        most=settings.steps,
        finish=settings.finish,
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
