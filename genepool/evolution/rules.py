"""The rules that workers follow, as plain values. genepool.experiment.rules makes them from the settings."""

from __future__ import annotations

import msgspec

from genepool.evaluation import Limits, Training
from genepool.evolution import set_point
from genepool.evolution.final_phase import FinalPhase
from genepool.evolution.reproduction import Breeding
from genepool.evolution.selection import Selection, tournament
from genepool.evolution.set_point import SetPoint
from genepool.evolution.training_budget import TrainingBudgetRules


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force. Re-read before every step, because settings can change during a run."""

    version: int = 1
    """The version of the settings that they come from."""
    population_size: int = 1000
    selection: Selection = tournament
    set_point: SetPoint = set_point.damped
    breeding: Breeding = Breeding()
    lacking: tuple[str, ...] = ()
    """Mutations with odds that this process lacks. The record names them, because they change the draw."""
    training_budget: TrainingBudgetRules = TrainingBudgetRules()
    final_phase: FinalPhase = FinalPhase()
    training: Training = Training()
    limits: Limits = Limits()
    reset_version: int = 0
    """The weights of individuals born under an older version are discarded."""
    can_reproduce: bool = True
    """False if this process lacks a plugin that the rules need: it then only takes over what it can train."""
